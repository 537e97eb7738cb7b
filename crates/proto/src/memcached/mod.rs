//! The memcached protocols as bytes: three codecs (text, meta, binary) over one set of requests
//! and responses, all without any input or output.
//!
//! A request says what is to be done ([`Operation`]) and how the client wants to be told
//! ([`Form`]); the executor looks at the operation only, and answers with [`answer`], which looks
//! at the form only. Invariants: nothing is allocated for a request; a request borrows the bytes it
//! came in, and what they hold is checked before it is given out.

mod binary;
pub mod datagram;
mod flags;
mod key;
mod line;
mod meta;
mod numbers;
mod parser;
mod request;
mod response;
#[cfg(test)]
mod tests;
mod text;

pub use flags::Flags;
pub use key::{KEY_LENGTH_MAX, Key, KeyBuffer, Keys};
pub use line::Words;
pub use parser::{Dialect, ItemLimits, ParseStatus, Parser};
pub use request::{
    Administration, Arithmetic, Deadline, Delete, Expiry, Failure, Form, Operation, Refusal,
    Request, Retrieve, Store, StoreMode,
};
pub use response::{Item, ItemValue, Number, Response, answer};
