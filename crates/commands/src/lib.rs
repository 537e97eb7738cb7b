//! The commands room: every data command as one block of declaration with its handler below it.
//!
//! A handler is a plain synchronous function over a `Tx`, and never sees a session, a socket, a
//! thread or a file. Control commands live in `server`, next to what they steer, and are declared
//! with the same `Spec`, so everything that is derived from declarations treats both alike.

#![forbid(unsafe_code)]

pub mod arguments;
pub mod array;
pub mod bitmap;
pub mod categories;
pub mod change;
pub mod cluster;
#[cfg(test)]
mod complexity;
#[cfg(test)]
mod declaration_laws;
pub mod declare;
pub mod errors;
pub mod generic;
pub mod geo;
pub mod hash;
pub mod hyperloglog;
pub mod keys;
pub mod list;
mod long_reply;
mod member_scan;
pub mod member_ttl;
mod prefetch;
mod repeated;
#[cfg(test)]
mod request_mutations;
pub mod set;
pub mod sorted_set;
pub mod stream;
pub mod string;
#[cfg(test)]
mod testing;
pub mod text;
mod time_unit;
pub mod waiting;

use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

pub use declare::{Arity, Command, Databases, Flags, Group, LockPlan, Role, Secrets, Spec};
pub use keys::{Access, KeySpec};

/// The function of a data command. A handler answers exactly once: by `reply` and `Ok`, or by a
/// refusal before it changed anything.
pub type HandlerFn = fn(&mut Tx, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal>;

/// A data command.
pub type DataCommand = Command<HandlerFn>;

/// What runs a data command. Its function is reached by [`Handler::run`] alone, so that no road to
/// it leaves out what belongs before it.
#[derive(Clone, Copy)]
pub struct Handler {
    spec: &'static Spec,
    function: HandlerFn,
}

impl Handler {
    /// That of a command.
    #[must_use]
    pub fn of(command: &'static DataCommand) -> Self {
        Self { spec: &command.spec, function: command.run }
    }

    /// Runs a request, of a client as of a log. In sorted sets a member counts by its rank, so
    /// members whose time is over go before any command of theirs looks.
    #[inline]
    pub fn run(self, tx: &mut Tx, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
        if tx.keyspace().settings().members_expire()
            && matches!(self.spec.group, Group::SortedSet | Group::Geo)
        {
            refresh_ranks(self.spec, tx, args)?;
        }
        (self.function)(tx, args, reply)
    }
}

fn refresh_ranks(spec: &Spec, tx: &mut Tx, args: Args<'_>) -> Result<(), Refusal> {
    let mut indexes = Vec::new();
    if spec.visit_keys(args, |index| indexes.push(index)).is_err() {
        // Counts that lie are for the handler to refuse: none of the keys is locked.
        return Ok(());
    }
    let reads = !spec.flags.has(Flags::WRITE);
    indexes.into_iter().try_for_each(|index| match reads {
        true => tx.refresh_members_read(&args[index]),
        false => tx.refresh_members(&args[index]),
    })
}

/// All families of data commands.
pub const FAMILIES: &[&[&DataCommand]] = &[
    array::COMMANDS,
    bitmap::COMMANDS,
    cluster::COMMANDS,
    generic::COMMANDS,
    geo::COMMANDS,
    hash::COMMANDS,
    hyperloglog::COMMANDS,
    list::COMMANDS,
    member_ttl::COMMANDS,
    set::COMMANDS,
    sorted_set::COMMANDS,
    stream::COMMANDS,
    string::COMMANDS,
];

/// Data commands that are subcommands of containers from elsewhere: the container, the subcommand.
pub const SUBCOMMANDS: &[(&str, &DataCommand)] = &[
    ("CLUSTER", &cluster::FLUSHSLOT),
    ("HIMPORT", &hash::import::SET),
    ("MEMORY", &generic::memory::USAGE),
];
