//! JSON read as lua-cjson reads it: its leniency with numbers, and its errors.
//!
//! Invariants: every byte is read once, but for a number's, and nesting is bounded.

use base::number::parse_f64;
use mlua::{Table, Value};

use super::super::DEPTH_MAX;
use super::Settings;
use crate::call::Call;

/// Decodes the one argument.
pub(super) fn decode(call: &Call<'_>, settings: &Settings, arrays: &Table) -> mlua::Result<Value> {
    if call.args.len() != 1 {
        return Err(call.bad_argument(0, "expected 1 argument"));
    }
    let text = call.text(0)?;
    let text = text.as_bytes();
    if matches!(*text, [0, _, ..] | [_, 0, ..]) {
        return Err(call.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { call, settings, arrays, text: &text, at: 0 };
    let first = decoder.token();
    let value = decoder.value(first, 0)?;
    let last = decoder.token();
    if !matches!(last.kind, Kind::End) {
        return Err(decoder.unexpected("the end", &last));
    }
    Ok(value)
}

/// A token, and where it begins.
struct Token {
    kind: Kind,
    at: usize,
}

enum Kind {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    Text(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Kind {
    /// The token as errors name it.
    fn name(&self) -> &'static str {
        match self {
            Kind::ObjectBegin => "T_OBJ_BEGIN",
            Kind::ObjectEnd => "T_OBJ_END",
            Kind::ArrayBegin => "T_ARR_BEGIN",
            Kind::ArrayEnd => "T_ARR_END",
            Kind::Text(_) => "T_STRING",
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

struct Decoder<'a> {
    call: &'a Call<'a>,
    settings: &'a Settings,
    arrays: &'a Table,
    text: &'a [u8],
    at: usize,
}

impl Decoder<'_> {
    fn value(&mut self, token: Token, depth: usize) -> mlua::Result<Value> {
        Ok(match token.kind {
            Kind::Text(text) => Value::String(self.call.lua.create_string(&text)?),
            Kind::Number(number) => Value::Number(number),
            Kind::Boolean(value) => Value::Boolean(value),
            Kind::Null => Value::NULL,
            Kind::ObjectBegin => self.object(self.deeper(depth)?)?,
            Kind::ArrayBegin => self.array(self.deeper(depth)?)?,
            _ => return Err(self.unexpected("value", &token)),
        })
    }

    fn object(&mut self, depth: usize) -> mlua::Result<Value> {
        let table = self.call.lua.create_table()?;
        let mut token = self.token();
        if matches!(token.kind, Kind::ObjectEnd) {
            return Ok(Value::Table(table));
        }
        loop {
            let Kind::Text(key) = token.kind else {
                return Err(self.unexpected("object key string", &token));
            };
            let colon = self.token();
            if !matches!(colon.kind, Kind::Colon) {
                return Err(self.unexpected("colon", &colon));
            }
            let first = self.token();
            let value = self.value(first, depth)?;
            table.raw_set(self.call.lua.create_string(&key)?, value)?;
            let next = self.token();
            match next.kind {
                Kind::ObjectEnd => return Ok(Value::Table(table)),
                Kind::Comma => token = self.token(),
                _ => return Err(self.unexpected("comma or object end", &next)),
            }
        }
    }

    fn array(&mut self, depth: usize) -> mlua::Result<Value> {
        let table = self.call.lua.create_table()?;
        if self.settings.marks_arrays {
            table.set_metatable(Some(self.arrays.clone()))?;
        }
        let mut token = self.token();
        if matches!(token.kind, Kind::ArrayEnd) {
            return Ok(Value::Table(table));
        }
        for index in 1_i64.. {
            table.raw_set(index, self.value(token, depth)?)?;
            let next = self.token();
            match next.kind {
                Kind::ArrayEnd => break,
                Kind::Comma => token = self.token(),
                _ => return Err(self.unexpected("comma or array end", &next)),
            }
        }
        Ok(Value::Table(table))
    }

    fn deeper(&self, depth: usize) -> mlua::Result<usize> {
        let depth = depth + 1;
        if depth > self.settings.decode_depth.min(DEPTH_MAX) {
            let at = self.at;
            let text = format!("Found too many nested data structures ({depth}) at character {at}");
            return Err(self.call.error(text));
        }
        Ok(depth)
    }

    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        let (name, at) = (found.kind.name(), found.at + 1);
        self.call.error(format!("Expected {expected} but found {name} at character {at}"))
    }

    fn token(&mut self) -> Token {
        let rest = &self.text[self.at..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r'));
        self.at += blanks.count();
        let at = self.at;
        // A zero ends the text, as it does in C.
        let Some(&byte) = self.text.get(at).filter(|byte| **byte != 0) else {
            return Token { kind: Kind::End, at };
        };
        self.at += 1;
        let kind = match byte {
            b'{' => Kind::ObjectBegin,
            b'}' => Kind::ObjectEnd,
            b'[' => Kind::ArrayBegin,
            b']' => Kind::ArrayEnd,
            b',' => Kind::Comma,
            b':' => Kind::Colon,
            b'"' => return self.string(at),
            _ => {
                self.at = at;
                self.word()
            }
        };
        Token { kind, at }
    }

    /// A literal or a number.
    fn word(&mut self) -> Kind {
        let rest = &self.text[self.at..];
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
        if !self.settings.decodes_invalid && !is_valid_number(rest) {
            let is_word = rest[0].is_ascii_alphabetic();
            return Kind::Error(if is_word { "invalid token" } else { "invalid number" });
        }
        self.at += length;
        Kind::Number(number)
    }

    /// The rest of a string that begins at `start`.
    fn string(&mut self, start: usize) -> Token {
        let mut text = Vec::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0));
            let Some(plain) = plain else {
                self.at = self.text.len();
                return Token { kind: Kind::Error("unexpected end of string"), at: self.at };
            };
            text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            let problem = match rest[plain] {
                b'"' => {
                    self.at += 1;
                    return Token { kind: Kind::Text(text), at: start };
                }
                b'\\' => self.escape(&mut text).err(),
                _ => Some("unexpected end of string"),
            };
            if let Some(problem) = problem {
                return Token { kind: Kind::Error(problem), at: self.at };
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
