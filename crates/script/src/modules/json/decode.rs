//! JSON cut into tokens as lua-cjson cuts it: its leniency with numbers, and its errors.
//!
//! Invariant: every byte is read once, but for a number's.

use base::number::parse_f64;

/// A token, and where it begins.
#[derive(Clone, Copy)]
pub(super) struct JsonToken<'t> {
    pub(super) kind: Kind<'t>,
    pub(super) at: usize,
}

/// What a token is.
#[derive(Clone, Copy)]
pub(super) enum Kind<'t> {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// A string without an escape.
    Plain(&'t [u8]),
    /// A string whose bytes were put together elsewhere.
    Escaped,
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Kind<'_> {
    /// The token as errors name it.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::Plain(_) | Kind::Escaped => "T_STRING",
            Kind::Number(_) => "T_NUMBER",
            Kind::Boolean(_) => "T_BOOLEAN",
            Kind::Null => "T_NULL",
            Kind::Colon => "T_COLON",
            Kind::Comma => "T_COMMA",
            Kind::End => "T_END",
            Kind::Error(problem) => problem,
        }
    }
}

/// Where in a text the next token is looked for.
pub(super) struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    /// Whether numbers that JSON does not know are read.
    is_lenient: bool,
}

impl<'t> Scanner<'t> {
    /// Begins with a text.
    pub(super) fn new(text: &'t [u8], is_lenient: bool) -> Scanner<'t> {
        Scanner { text, at: 0, is_lenient }
    }

    /// How far the text was read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// The next token. The bytes of a string with escapes are put into `scratch`.
    pub(super) fn token(&mut self, scratch: &mut Vec<u8>) -> JsonToken<'t> {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += blanks.count();
        let at = self.at;
        // A zero ends the text, as it does in C.
        let Some(&byte) = self.text.get(at).filter(|byte| **byte != 0) else {
            return JsonToken { kind: Kind::End, at };
        };
        self.at += 1;
        let kind = match byte {
            b'{' => Kind::ObjectBegin,
            b'}' => Kind::ObjectEnd,
            b'[' => Kind::ArrayBegin,
            b']' => Kind::ArrayEnd,
            b',' => Kind::Comma,
            b':' => Kind::Colon,
            b'"' => return self.string(at, scratch),
            _ => {
                self.at = at;
                self.word()
            }
        };
        JsonToken { kind, at }
    }

    /// A literal or a number.
    fn word(&mut self) -> Kind<'t> {
        let rest = &self.text[self.at..];
        if let Some((number, length)) = short_number(rest) {
            self.at += length;
            return Kind::Number(number);
        }
        for (word, kind) in [
            (&b"true"[..], Kind::Boolean(true)),
            (b"false", Kind::Boolean(false)),
            (b"null", Kind::Null),
        ] {
            if rest.starts_with(word) {
                self.at += word.len();
                return kind;
            }
        }
        if !matches!(rest[0], b'0'..=b'9' | b'-' | b'+' | b'i' | b'I' | b'n' | b'N') {
            return Kind::Error("invalid token");
        }
        let Some((number, length)) = leading_number(rest) else {
            let is_number = matches!(rest[0], b'-' | b'+');
            return Kind::Error(if is_number { "invalid number" } else { "invalid token" });
        };
        if !self.is_lenient && !is_valid_number(rest) {
            let is_word = rest[0].is_ascii_alphabetic();
            return Kind::Error(if is_word { "invalid token" } else { "invalid number" });
        }
        self.at += length;
        Kind::Number(number)
    }

    /// The rest of a string that begins at `start`.
    fn string(&mut self, start: usize, scratch: &mut Vec<u8>) -> JsonToken<'t> {
        let mut has_escapes = false;
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0));
            let Some(plain) = plain else {
                self.at = self.text.len();
                return JsonToken { kind: Kind::Error("unexpected end of string"), at: self.at };
            };
            self.at += plain;
            if rest[plain] == b'"' && !has_escapes {
                self.at += 1;
                return JsonToken { kind: Kind::Plain(&rest[..plain]), at: start };
            }
            if !has_escapes {
                scratch.clear();
                has_escapes = true;
            }
            scratch.extend_from_slice(&rest[..plain]);
            let problem = match rest[plain] {
                b'"' => {
                    self.at += 1;
                    return JsonToken { kind: Kind::Escaped, at: start };
                }
                b'\\' => self.escape(scratch).err(),
                _ => Some("unexpected end of string"),
            };
            if let Some(problem) = problem {
                return JsonToken { kind: Kind::Error(problem), at: self.at };
            }
        }
    }

    /// What a backslash begins.
    fn escape(&mut self, text: &mut Vec<u8>) -> Result<(), &'static str> {
        let byte = match self.text.get(self.at + 1) {
            Some(b'u') => {
                let point = self.code_point().ok_or("invalid unicode escape code")?;
                let mut buffer = [0; 4];
                text.extend_from_slice(point.encode_utf8(&mut buffer).as_bytes());
                return Ok(());
            }
            Some(byte @ (b'"' | b'\\' | b'/')) => *byte,
            Some(b'b') => 8,
            Some(b't') => 9,
            Some(b'n') => 10,
            Some(b'f') => 12,
            Some(b'r') => 13,
            _ => return Err("invalid escape code"),
        };
        text.push(byte);
        self.at += 2;
        Ok(())
    }

    /// A code point, of one escape or of a surrogate pair.
    fn code_point(&mut self) -> Option<char> {
        let high = self.code_unit(self.at)?;
        if !(0xd800..0xdc00).contains(&high) {
            let point = char::from_u32(high)?;
            self.at += 6;
            return Some(point);
        }
        let low = self.code_unit(self.at + 6).filter(|unit| (0xdc00..0xe000).contains(unit))?;
        self.at += 12;
        char::from_u32(0x1_0000 + ((high - 0xd800) << 10) + (low - 0xdc00))
    }

    fn code_unit(&self, at: usize) -> Option<u32> {
        let [b'\\', b'u', digits @ ..] = self.text.get(at..at + 6)? else { return None };
        let digit = |value: u32, byte: &u8| Some(value << 4 | char::from(*byte).to_digit(16)?);
        digits.iter().try_fold(0, digit)
    }
}

/// The integer of few digits that a text begins with, if it is nothing else.
fn short_number(text: &[u8]) -> Option<(f64, usize)> {
    const DIGITS_MAX: usize = 15;
    let sign = usize::from(text.first() == Some(&b'-'));
    let (mut value, mut length) = (0_i64, sign);
    while let Some(digit) = text.get(length).filter(|byte| byte.is_ascii_digit()) {
        value = value * 10 + i64::from(digit - b'0');
        length += 1;
        if length > DIGITS_MAX {
            return None;
        }
    }
    let begins_with_zero = text.get(sign) == Some(&b'0');
    let goes_on = matches!(text.get(length), Some(b'.' | b'e' | b'E' | b'x' | b'X'));
    if length == sign || begins_with_zero || goes_on {
        return None;
    }
    Some((if sign == 1 { -value } else { value } as f64, length))
}

/// The number that a text begins with, as strtod reads it, and its length.
fn leading_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text, [b'-' | b'+', ..]));
    let rest = &text[sign..];
    let begins =
        |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let is_negative = text[0] == b'-';
    let signed = |number: f64| if is_negative { -number } else { number };
    if begins(b"nan") {
        return Some((signed(f64::NAN), sign + 3));
    }
    for word in [&b"infinity"[..], b"inf"] {
        if begins(word) {
            return Some((signed(f64::INFINITY), sign + word.len()));
        }
    }
    let length = sign + number_length(rest)?;
    let number = std::str::from_utf8(&text[..length]).ok()?.parse().ok();
    number.or_else(|| parse_f64(&text[..length])).map(|number| (number, length))
}

/// How many bytes of a text belong to its first number, which may be hexadecimal.
fn number_length(text: &[u8]) -> Option<usize> {
    if let [b'0', b'x' | b'X', rest @ ..] = text
        && let Some(length) = digits_length(rest, u8::is_ascii_hexdigit, b'p')
    {
        return Some(2 + length);
    }
    digits_length(text, u8::is_ascii_digit, b'e')
}

fn digits_length(text: &[u8], is_digit: fn(&u8) -> bool, mark: u8) -> Option<usize> {
    let run = |from: usize| text[from..].iter().take_while(|byte| is_digit(byte)).count();
    let whole = run(0);
    let mut end = whole;
    if text.get(end) == Some(&b'.') {
        let fraction = run(end + 1);
        if whole + fraction > 0 {
            end += 1 + fraction;
        }
    }
    if end == 0 {
        return None;
    }
    if text.get(end).is_some_and(|byte| byte.to_ascii_lowercase() == mark) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'-' | b'+')));
        let from = end + 1 + sign;
        let digits = text[from.min(text.len())..].iter().take_while(|byte| byte.is_ascii_digit());
        let digits = digits.count();
        if digits > 0 {
            end = from + digits;
        }
    }
    Some(end)
}

/// Whether a number is one in JSON's own grammar, as far as lua-cjson looks.
fn is_valid_number(text: &[u8]) -> bool {
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    match rest {
        [b'0', next, ..] => !matches!(next, b'0'..=b'9' | b'x' | b'X'),
        [b'0'..=b'9', ..] => true,
        _ => false,
    }
}
