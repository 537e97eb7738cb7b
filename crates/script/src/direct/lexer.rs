//! The words of direct scripts.
//!
//! Invariant: a word is what Lua's own lexer makes of the same bytes; where the two could differ,
//! there is none.

/// A word.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Token<'a> {
    /// A name or a keyword.
    Word(&'a [u8]),
    Number(f64),
    Text(&'a [u8]),
    Sign(&'a [u8]),
    End,
}

/// What a script is read from.
#[derive(Clone, Debug)]
pub(super) struct Lexer<'a> {
    rest: &'a [u8],
    /// The number of line ends before it.
    lines: usize,
}

/// Those of two bytes come before those they begin with.
const SIGNS: [&[u8]; 23] = [
    b"==", b"~=", b"<=", b">=", b"..", b"<", b">", b"=", b"+", b"-", b"*", b"/", b"%", b"#", b"(",
    b")", b"[", b"]", b"{", b"}", b",", b".", b";",
];

impl<'a> Lexer<'a> {
    pub(super) fn new(source: &'a [u8]) -> Lexer<'a> {
        Lexer { rest: source, lines: 0 }
    }

    /// The number of line ends before what comes next.
    pub(super) fn lines(&self) -> usize {
        self.lines
    }

    /// The next word; `None` if it is none that is known here.
    pub(super) fn next(&mut self) -> Option<Token<'a>> {
        self.skip_blanks()?;
        let Some(first) = self.rest.first() else { return Some(Token::End) };
        match first {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => Some(Token::Word(self.take_while(is_of_name))),
            b'0'..=b'9' => self.number(),
            b'"' | b'\'' => self.text(*first),
            _ => {
                let sign = SIGNS.iter().find(|sign| self.rest.starts_with(sign))?;
                self.rest = &self.rest[sign.len()..];
                // A number may begin with a point, and three points are a sign of their own.
                let is_other = sign[0] == b'.' && self.rest.first().is_some_and(is_digit_or_point);
                (!is_other).then_some(Token::Sign(sign))
            }
        }
    }

    fn skip_blanks(&mut self) -> Option<()> {
        loop {
            let blanks = self.take_while(|byte| matches!(byte, b' ' | 9..=13));
            self.lines += blanks.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count();
            let Some(comment) = self.rest.strip_prefix(b"--") else { return Some(()) };
            if comment.starts_with(b"[") {
                return None;
            }
            self.take_while(|byte| !matches!(byte, b'\n' | b'\r'));
        }
    }

    /// Digits and perhaps a fraction, nothing else that numbers may have.
    fn number(&mut self) -> Option<Token<'a>> {
        let text = self.take_while(|byte| is_of_name(byte) || *byte == b'.');
        let text = std::str::from_utf8(text).ok()?;
        let is_decimal = text.bytes().all(|byte| is_digit_or_point(&byte));
        let number: f64 = if is_decimal { text.parse().ok()? } else { return None };
        number.is_finite().then_some(Token::Number(number))
    }

    /// A text in one line that says nothing in other ways.
    fn text(&mut self, quote: u8) -> Option<Token<'a>> {
        self.rest = &self.rest[1..];
        let text =
            self.take_while(|byte| !matches!(byte, b'\\' | b'\n' | b'\r' | 0) && *byte != quote);
        self.rest = self.rest.strip_prefix(&[quote])?;
        Some(Token::Text(text))
    }

    fn take_while(&mut self, belongs: impl Fn(&u8) -> bool) -> &'a [u8] {
        let length = self.rest.iter().position(|byte| !belongs(byte)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }
}

fn is_of_name(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

fn is_digit_or_point(byte: &u8) -> bool {
    byte.is_ascii_digit() || *byte == b'.'
}
