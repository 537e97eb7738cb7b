//! Patterns into trees.
//!
//! Invariant: nothing here nests deeper than [`DEPTH_MAX`], whatever the pattern.

use super::{Assertion, Bytes, RegexError, is_word};

/// Groups in each other.
const DEPTH_MAX: usize = 100;

/// Repetitions that braces may ask for, as in POSIX.
const REPETITIONS_MAX: u32 = 255;

pub(super) enum Node {
    Bytes(Box<Bytes>),
    Assertion(Assertion),
    Sequence(Vec<Node>),
    Choice(Vec<Node>),
    Repeated { node: Box<Node>, least: u32, most: Option<u32> },
}

/// The tree of a pattern.
pub(super) fn parse(pattern: &[u8], ignore_case: bool) -> Result<Node, RegexError> {
    let mut parser = Parser { rest: pattern, ignore_case, depth: 0 };
    let node = parser.choice()?;
    if parser.rest.is_empty() { Ok(node) } else { Err(RegexError::Group) }
}

struct Parser<'a> {
    rest: &'a [u8],
    ignore_case: bool,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn choice(&mut self) -> Result<Node, RegexError> {
        let mut nodes = vec![self.sequence()?];
        while self.eat(b'|') {
            nodes.push(self.sequence()?);
        }
        Ok(Node::Choice(nodes))
    }

    fn sequence(&mut self) -> Result<Node, RegexError> {
        let mut nodes = Vec::new();
        while !matches!(self.rest.first(), None | Some(b'|' | b')')) {
            let atom = self.atom()?;
            nodes.push(self.repetitions(atom)?);
        }
        Ok(Node::Sequence(nodes))
    }

    /// What stands behind an atom: the last repetition is the outermost.
    fn repetitions(&mut self, mut node: Node) -> Result<Node, RegexError> {
        for _ in 0..DEPTH_MAX {
            let Some(sign @ (b'*' | b'+' | b'?' | b'{')) = self.rest.first() else {
                return Ok(node);
            };
            self.rest = &self.rest[1..];
            let (least, most) = match sign {
                b'*' => (0, None),
                b'+' => (1, None),
                b'?' => (0, Some(1)),
                _ => self.braces()?,
            };
            node = Node::Repeated { node: Box::new(node), least, most };
        }
        Err(RegexError::TooLarge)
    }

    /// The numbers in braces, whose opening one is behind.
    fn braces(&mut self) -> Result<(u32, Option<u32>), RegexError> {
        let least = self.number();
        let (least, most) = if self.eat(b',') {
            let most = self.number();
            if least.is_none() && most.is_none() {
                return Err(RegexError::Repetition);
            }
            (least.unwrap_or(0), most)
        } else {
            let least = least.ok_or(RegexError::Repetition)?;
            (least, Some(least))
        };
        let is_sound = least <= REPETITIONS_MAX
            && most.is_none_or(|most| (least..=REPETITIONS_MAX).contains(&most));
        if is_sound && self.eat(b'}') { Ok((least, most)) } else { Err(RegexError::Repetition) }
    }

    fn number(&mut self) -> Option<u32> {
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let value = |number: u32, digit: &u8| {
            number.saturating_mul(10).saturating_add(u32::from(digit - b'0'))
        };
        (digits > 0).then(|| number.iter().fold(0, value))
    }

    fn atom(&mut self) -> Result<Node, RegexError> {
        let byte = self.next().expect("a sequence ends where the pattern does");
        Ok(match byte {
            b'(' => {
                self.depth += 1;
                if self.depth > DEPTH_MAX {
                    return Err(RegexError::Group);
                }
                let node = self.choice()?;
                self.depth -= 1;
                if !self.eat(b')') {
                    return Err(RegexError::Group);
                }
                node
            }
            b'[' => Node::Bytes(Box::new(self.bracket()?)),
            b'.' => Node::Bytes(Box::new([u64::MAX; 4])),
            b'^' => Node::Assertion(Assertion::Start),
            b'$' => Node::Assertion(Assertion::End),
            b'*' | b'+' | b'?' | b'{' => return Err(RegexError::NothingToRepeat),
            b'\\' => self.escape()?,
            literal => self.literal(literal),
        })
    }

    fn escape(&mut self) -> Result<Node, RegexError> {
        let class = |holds: fn(u8) -> bool, negated| Node::Bytes(Box::new(select(holds, negated)));
        Ok(match self.next().ok_or(RegexError::Escape)? {
            b'w' => class(is_word, false),
            b'W' => class(is_word, true),
            b'd' => class(|byte| byte.is_ascii_digit(), false),
            b'D' => class(|byte| byte.is_ascii_digit(), true),
            b's' => class(is_space, false),
            b'S' => class(is_space, true),
            b'b' => Node::Assertion(Assertion::WordEdge),
            b'B' => Node::Assertion(Assertion::NoWordEdge),
            b'<' => Node::Assertion(Assertion::WordStart),
            b'>' => Node::Assertion(Assertion::WordEnd),
            b'1'..=b'9' => return Err(RegexError::BackReference),
            b'x' => {
                let (digits, rest) =
                    self.rest.split_first_chunk::<2>().ok_or(RegexError::Escape)?;
                self.rest = rest;
                let [high, low] = digits.map(|digit| char::from(digit).to_digit(16));
                let value = high.zip(low).map(|(high, low)| (high * 16 + low) as u8);
                self.literal(value.ok_or(RegexError::Escape)?)
            }
            b't' => self.literal(b'\t'),
            b'n' => self.literal(b'\n'),
            b'r' => self.literal(b'\r'),
            b'f' => self.literal(0x0c),
            b'v' => self.literal(0x0b),
            b'a' => self.literal(0x07),
            b'e' => self.literal(0x1b),
            letter if letter.is_ascii_alphanumeric() => return Err(RegexError::Escape),
            other => self.literal(other),
        })
    }

    fn literal(&self, byte: u8) -> Node {
        let mut bytes = Bytes::default();
        self.add(&mut bytes, byte..=byte);
        Node::Bytes(Box::new(bytes))
    }

    /// What stands in brackets, whose opening one is behind.
    fn bracket(&mut self) -> Result<Bytes, RegexError> {
        let negated = self.eat(b'^');
        let mut bytes = Bytes::default();
        let mut is_first = true;
        loop {
            let byte = self.next().ok_or(RegexError::Bracket)?;
            if byte == b']' && !is_first {
                break;
            }
            is_first = false;
            if byte == b'[' && self.eat(b':') {
                let class = self.class()?;
                (0..=u8::MAX).filter(|byte| class(*byte)).for_each(|byte| {
                    self.add(&mut bytes, byte..=byte);
                });
                continue;
            }
            let first = self.element(byte)?;
            let is_range = matches!(self.rest, [b'-', next, ..] if *next != b']');
            let last = if is_range {
                self.rest = &self.rest[1..];
                let byte = self.next().ok_or(RegexError::Bracket)?;
                self.element(byte)?
            } else {
                first
            };
            if last < first {
                return Err(RegexError::Range);
            }
            self.add(&mut bytes, first..=last);
        }
        Ok(if negated { bytes.map(|bits| !bits) } else { bytes })
    }

    /// A byte that stands for itself in brackets, or as `[.x.]` or `[=x=]`.
    fn element(&mut self, byte: u8) -> Result<u8, RegexError> {
        match self.rest {
            [mark @ (b'.' | b'='), inner, end, b']', rest @ ..] if byte == b'[' && end == mark => {
                self.rest = rest;
                Ok(*inner)
            }
            [b'.' | b'=', ..] if byte == b'[' => Err(RegexError::ClassName),
            _ => Ok(byte),
        }
    }

    /// The class whose name follows.
    fn class(&mut self) -> Result<fn(u8) -> bool, RegexError> {
        let len = self.rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (name, rest) = self.rest.split_at(len);
        self.rest = rest.strip_prefix(b":]").ok_or(RegexError::ClassName)?;
        Ok(match name {
            b"alnum" => |byte| byte.is_ascii_alphanumeric(),
            b"alpha" => |byte| byte.is_ascii_alphabetic(),
            b"blank" => |byte| matches!(byte, b' ' | b'\t'),
            b"cntrl" => |byte| byte.is_ascii_control(),
            b"digit" => |byte| byte.is_ascii_digit(),
            b"graph" => |byte| byte.is_ascii_graphic(),
            b"lower" => |byte| byte.is_ascii_lowercase(),
            b"print" => |byte| byte.is_ascii_graphic() || byte == b' ',
            b"punct" => |byte| byte.is_ascii_punctuation(),
            b"space" => is_space,
            b"upper" => |byte| byte.is_ascii_uppercase(),
            b"xdigit" => |byte| byte.is_ascii_hexdigit(),
            _ => return Err(RegexError::ClassName),
        })
    }

    /// Adds bytes to a set, in both cases where case does not count.
    fn add(&self, bytes: &mut Bytes, range: std::ops::RangeInclusive<u8>) {
        for byte in range {
            let cases = [byte, byte.to_ascii_lowercase(), byte.to_ascii_uppercase()];
            for byte in &cases[..if self.ignore_case { 3 } else { 1 }] {
                bytes[usize::from(byte / 64)] |= 1 << (byte % 64);
            }
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.rest.first() == Some(&byte);
        if found {
            self.rest = &self.rest[1..];
        }
        found
    }

    fn next(&mut self) -> Option<u8> {
        let (byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*byte)
    }
}

fn select(holds: impl Fn(u8) -> bool, negated: bool) -> Bytes {
    let mut bytes = Bytes::default();
    for byte in (0..=u8::MAX).filter(|byte| holds(*byte) != negated) {
        bytes[usize::from(byte / 64)] |= 1 << (byte % 64);
    }
    bytes
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}
