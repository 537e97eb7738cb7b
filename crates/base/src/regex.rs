//! Extended regular expressions of POSIX, with the classes and word ends that are in common use.
//!
//! ```text
//!  a|b   ab   a* a+ a? a{2} a{2,} a{2,5}   (a)   .   ^ $   [a-z] [^[:digit:]]
//!  \w \W \d \D \s \S   \b \B \< \>   \t \n \r \f \v \a \e \xHH   \. and the like
//! ```
//!
//! Expressions go by bytes. What is asked is only whether a text has a match, so `*?` and its kin
//! mean what `*` means, and there are no references back to groups.
//!
//! Invariant: a match takes at most as many steps as the text has bytes, times those of the
//! program, and a program has at most [`PROGRAM_MAX`]: an expression cannot make it slow, nor
//! large. All places of the program that a match may be at are followed at once.

mod parse;
#[cfg(test)]
mod tests;

use self::parse::{Node, parse};

/// Instructions of a program.
pub const PROGRAM_MAX: usize = 16 * 1024;

/// Nodes that are visited to make a program.
const STEPS_MAX: usize = 4 * PROGRAM_MAX;

/// Why there is no expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegexError {
    /// `(` or `)` without the other, or too many in each other.
    Group,
    /// `[` without `]`.
    Bracket,
    /// A name in `[: :]` that no class has, or an element that has a name.
    ClassName,
    /// A range whose end is before its start.
    Range,
    /// What stands in braces is no count of repetitions, or they are not closed.
    Repetition,
    /// `*` and its kin with nothing before it.
    NothingToRepeat,
    /// A backslash at the end, or before what it gives no meaning.
    Escape,
    /// `\1` and its kin.
    BackReference,
    /// The program would be too long.
    TooLarge,
}

/// A set of bytes.
pub(crate) type Bytes = [u64; 4];

/// What holds between two bytes: a zero-width assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Assertion {
    Start,
    End,
    WordStart,
    WordEnd,
    WordEdge,
    NoWordEdge,
}

enum Instruction {
    Byte(Box<Bytes>),
    Split(usize, usize),
    Jump(usize),
    Assertion(Assertion),
    Match,
}

/// An expression made ready.
pub struct Regex {
    program: Vec<Instruction>,
    /// The steps that may still be taken to make the program.
    steps_left: usize,
}

/// What a match needs beside the expression, to be used for many texts.
#[derive(Default)]
pub struct Matcher {
    here: StateSet,
    next: StateSet,
    open: Vec<usize>,
}

/// States of the program, each once.
#[derive(Default)]
struct StateSet {
    states: Vec<usize>,
    /// The number of the step at which a state was added last.
    added: Vec<usize>,
}

impl Regex {
    /// The expression of a pattern; `ignore_case` folds ASCII letters.
    pub fn new(pattern: &[u8], ignore_case: bool) -> Result<Self, RegexError> {
        let node = parse(pattern, ignore_case)?;
        let mut regex = Self { program: Vec::new(), steps_left: STEPS_MAX };
        regex.compile(&node)?;
        regex.push(Instruction::Match)?;
        Ok(regex)
    }

    /// Instructions that a step may take.
    #[must_use]
    pub fn program_len(&self) -> usize {
        self.program.len()
    }

    /// Whether a text has a match.
    pub fn is_match(&self, text: &[u8], matcher: &mut Matcher) -> bool {
        matcher.here.reset(self.program.len());
        matcher.next.reset(self.program.len());
        let from_start = matches!(self.program[0], Instruction::Assertion(Assertion::Start));
        for at in 0..=text.len() {
            if (at == 0 || !from_start) && self.follow(0, text, at, Side::Here, matcher) {
                return true;
            }
            if matcher.here.states.is_empty() && from_start {
                return false;
            }
            let Some(byte) = text.get(at) else { return false };
            let here = std::mem::take(&mut matcher.here.states);
            for state in &here {
                let Instruction::Byte(bytes) = &self.program[*state] else { continue };
                if contains(bytes, *byte)
                    && self.follow(state + 1, text, at + 1, Side::Next, matcher)
                {
                    return true;
                }
            }
            matcher.here.states = here;
            matcher.here.states.clear();
            std::mem::swap(&mut matcher.here, &mut matcher.next);
        }
        false
    }

    /// Adds the states that are reached from one without a byte; tells whether that is the end.
    fn follow(
        &self,
        from: usize,
        text: &[u8],
        at: usize,
        side: Side,
        matcher: &mut Matcher,
    ) -> bool {
        let states = match side {
            Side::Here => &mut matcher.here,
            Side::Next => &mut matcher.next,
        };
        matcher.open.clear();
        matcher.open.push(from);
        while let Some(state) = matcher.open.pop() {
            // A state is added once for each byte of the text; 0 is before the first.
            if std::mem::replace(&mut states.added[state], at + 1) == at + 1 {
                continue;
            }
            match &self.program[state] {
                Instruction::Match => return true,
                Instruction::Byte(_) => states.states.push(state),
                Instruction::Jump(to) => matcher.open.push(*to),
                Instruction::Split(one, other) => matcher.open.extend([*one, *other]),
                Instruction::Assertion(one) if one.holds(text, at) => matcher.open.push(state + 1),
                Instruction::Assertion(_) => {}
            }
        }
        false
    }

    fn push(&mut self, instruction: Instruction) -> Result<usize, RegexError> {
        if self.program.len() == PROGRAM_MAX {
            return Err(RegexError::TooLarge);
        }
        self.program.push(instruction);
        Ok(self.program.len() - 1)
    }

    fn compile(&mut self, node: &Node) -> Result<(), RegexError> {
        // To repeat nothing adds nothing to the program, however often.
        self.steps_left = self.steps_left.checked_sub(1).ok_or(RegexError::TooLarge)?;
        match node {
            Node::Bytes(bytes) => self.push(Instruction::Byte(bytes.clone())).map(drop),
            Node::Assertion(assertion) => self.push(Instruction::Assertion(*assertion)).map(drop),
            Node::Sequence(nodes) => nodes.iter().try_for_each(|node| self.compile(node)),
            Node::Choice(nodes) => self.compile_choice(nodes),
            Node::Repeated { node, least, most } => {
                for _ in 0..*least {
                    self.compile(node)?;
                }
                match most {
                    None => self.compile_endless(node),
                    Some(most) => self.compile_optional(node, most.saturating_sub(*least)),
                }
            }
        }
    }

    fn compile_choice(&mut self, nodes: &[Node]) -> Result<(), RegexError> {
        let mut jumps = Vec::new();
        for (index, node) in nodes.iter().enumerate() {
            if index + 1 == nodes.len() {
                self.compile(node)?;
                break;
            }
            let split = self.push(Instruction::Jump(0))?;
            self.compile(node)?;
            jumps.push(self.push(Instruction::Jump(0))?);
            self.program[split] = Instruction::Split(split + 1, self.program.len());
        }
        let end = self.program.len();
        jumps.into_iter().for_each(|jump| self.program[jump] = Instruction::Jump(end));
        Ok(())
    }

    fn compile_endless(&mut self, node: &Node) -> Result<(), RegexError> {
        let split = self.push(Instruction::Jump(0))?;
        self.compile(node)?;
        self.push(Instruction::Jump(split))?;
        self.program[split] = Instruction::Split(split + 1, self.program.len());
        Ok(())
    }

    fn compile_optional(&mut self, node: &Node, most: u32) -> Result<(), RegexError> {
        let mut splits = Vec::new();
        for _ in 0..most {
            splits.push(self.push(Instruction::Jump(0))?);
            self.compile(node)?;
        }
        let end = self.program.len();
        splits
            .into_iter()
            .for_each(|split| self.program[split] = Instruction::Split(split + 1, end));
        Ok(())
    }
}

/// Where a byte leads to.
#[derive(Clone, Copy)]
enum Side {
    Here,
    Next,
}

impl StateSet {
    fn reset(&mut self, len: usize) {
        self.states.clear();
        self.added.clear();
        self.added.resize(len, 0);
    }
}

impl Assertion {
    fn holds(self, text: &[u8], at: usize) -> bool {
        let is_word = |byte: Option<&u8>| byte.is_some_and(|byte| is_word(*byte));
        let before = || is_word(at.checked_sub(1).and_then(|before| text.get(before)));
        let behind = || is_word(text.get(at));
        match self {
            Self::Start => at == 0,
            Self::End => at == text.len(),
            Self::WordStart => !before() && behind(),
            Self::WordEnd => before() && !behind(),
            Self::WordEdge => before() != behind(),
            Self::NoWordEdge => before() == behind(),
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

fn contains(bytes: &Bytes, byte: u8) -> bool {
    bytes[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
}

impl std::fmt::Display for RegexError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Group => "unbalanced parentheses, or too many in each other",
            Self::Bracket => "missing ']'",
            Self::ClassName => "unknown character class",
            Self::Range => "invalid character range",
            Self::Repetition => "invalid contents of {}",
            Self::NothingToRepeat => "nothing to repeat",
            Self::Escape => "invalid escape",
            Self::BackReference => "back references are not supported",
            Self::TooLarge => "too large",
        })
    }
}

impl std::error::Error for RegexError {}
