//! Lua scripts and libraries of functions, with the interface that Redis gives them.
//!
//! Knows commands only as something that a [`Host`] can call. Invariants: an interpreter belongs to
//! one thread; nothing that one run can reach and change outlives it, except the variables of a
//! library, which are its own; a [`Stop`] ends a run whatever the script does. `unsafe` is confined
//! to the files named `ffi.rs`, which work on Lua's own stack.
#![deny(unsafe_code)]

mod call;
mod direct;
mod error;
mod host;
mod interpreter;
mod library;
mod modules;
mod program;
mod replies;
mod result_budget;
mod scratch;
mod shebang;
#[cfg(test)]
mod tests;

pub use direct::{DirectExit, DirectState};
pub use error::{Fault, ScriptError};
pub use host::{Host, LogLevel, Replication, Stop};
pub use interpreter::{Input, Interpreter, Limits, Version};
pub use library::{Library, Registration};
pub use program::{ByDigest, Program, Sha1};
pub use shebang::Flags;
