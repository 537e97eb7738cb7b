//! The string family.
//!
//! Invariant: every command declared in these files stands in `COMMANDS`.

mod compare;
mod condition;
mod counter;
mod effects;
mod expiry;
mod get;
mod increx;
mod lcs;
mod mget;
mod range;
mod set;
#[cfg(test)]
mod tests;

use crate::DataCommand;

/// All commands of the family.
pub const COMMANDS: &[&DataCommand] = &[
    &range::APPEND,
    &compare::CAD,
    &compare::CAS,
    &counter::DECR,
    &counter::DECRBY,
    &compare::DELEX,
    &compare::DELIFEQ,
    &compare::DIGEST,
    &mget::GAT,
    &get::GET,
    &get::GETDEL,
    &get::GETEX,
    &range::GETRANGE,
    &get::GETSET,
    &counter::INCR,
    &counter::INCRBY,
    &counter::INCRBYFLOAT,
    &increx::INCREX,
    &lcs::LCS,
    &mget::MGET,
    &mget::MSET,
    &mget::MSETEX,
    &mget::MSETNX,
    &range::PREPEND,
    &set::PSETEX,
    &set::SET,
    &set::SETEX,
    &set::SETNX,
    &range::SETRANGE,
    &get::STRLEN,
    &range::SUBSTR,
];
