//! Scripts that are simple enough to be run without Lua: straight lines and branches of commands,
//! as locks, counters and conditional writes are made of.
//!
//! A direct script is a small part of Lua: local variables, `if`, `return`, `redis.call`, `KEYS`
//! and `ARGV` by number, `tonumber`, and operators. Such a script makes no tables and no strings of
//! Lua's, and leaves no garbage. There are no loops, so its text bounds how long it runs.
//!
//! Invariants: whatever is read here is Lua, and means the same there; a run that comes to anything
//! else than a value that both would have, an error above all, gives up, and its caller undoes what
//! it did and has Lua run it. See docs/decisions/direct-scripts.md.

mod lexer;
mod parser;
mod run;
mod value;

use crate::host::Stop;

pub use run::DirectState;

/// A script that can be run without Lua.
#[derive(Debug)]
pub(crate) struct Direct {
    body: Box<[Statement]>,
    /// The bytes that it takes beside its own, nearly.
    memory: usize,
}

impl Direct {
    /// Reads a script's Lua; `None` if it is more than is understood here.
    pub(crate) fn read(source: &[u8]) -> Option<Direct> {
        parser::parse(source)
    }

    /// The bytes that it takes.
    pub(crate) fn memory(&self) -> usize {
        self.memory + size_of::<Direct>()
    }
}

/// Why a run without Lua ended without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectExit {
    /// Its host ended it.
    Stop(Stop),
    /// Only Lua can tell what comes of it: undo what it did, and run it there.
    GaveUp,
}

#[derive(Debug)]
enum Statement {
    /// Gives a local variable a value.
    Set(usize, Expression),
    /// A command whose reply nobody looks at.
    Call(Box<[Expression]>),
    /// The first branch whose condition holds.
    If(Box<[Branch]>),
    Return(Returned),
}

#[derive(Debug)]
struct Branch {
    /// `else` has none.
    condition: Option<Expression>,
    body: Box<[Statement]>,
}

#[derive(Debug)]
enum Returned {
    Value(Expression),
    /// What a table is made of.
    List(Box<[Expression]>),
}

#[derive(Debug)]
enum Expression {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(Box<[u8]>),
    /// An element of a list, counted from zero.
    Element(List, usize),
    /// How many elements a list has.
    Count(List),
    Local(usize),
    Call(Box<[Expression]>),
    ToNumber(Box<Expression>),
    /// An element of a reply.
    Index(Box<(Expression, Expression)>),
    Unary(Unary, Box<Expression>),
    Binary(Binary, Box<(Expression, Expression)>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    Keys,
    Arguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unary {
    Not,
    Negative,
    Length,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Concatenate,
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
}
