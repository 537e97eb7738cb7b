//! Our own Sentinel, without sockets, files and a clock: events in, actions out.
//!
//! A Sentinel watches primaries, their replicas and the other Sentinels as redis-sentinel and
//! Valkey's do, and speaks with both: the same lines in the configuration file, the same hellos and
//! votes, the same replies and events. `Sentinel::start` takes the text of the file; from then on
//! `Sentinel::handle` takes one [`Event`] at a time, with the time, and gives back what is to be
//! done.
//!
//! What a driver does:
//!
//! 1. The driver carries out the actions of a list one after the other, before it feeds the next
//!    event.
//! 2. `Persist` comes first, if at all. The driver reads the configuration file, gives its text to
//!    `Sentinel::rewritten`, and puts the result in the file's place: a new file, synced, renamed
//!    over the old one, the directory synced. Only then does it go on: votes and epochs are told by
//!    the actions behind. If that fails it carries out what `Sentinel::persist_failed` makes of the
//!    list instead.
//! 3. `ScheduleTick` says when `Tick` is due; there is one tick at a time. A tick that comes late
//!    is how the engine notices that the process stood still.
//! 4. `Connect` is answered by `Connected` or `Disconnected`, in its time and never from within the
//!    list. From then on the driver feeds each whole reply as `Received`, in the order of the
//!    stream, parsed under [`REPLY_LIMITS`]; a stream that cannot be parsed is `Disconnected`. What
//!    comes over a [`Purpose::Messages`] connection is fed just so. The engine sends AUTH, names
//!    and SUBSCRIBE itself; TLS is the driver's. `Close` takes effect when all that was sent is
//!    written; nothing more is fed then.
//! 5. SENTINEL, ROLE and PUBLISH of a client are `Command`; `Reply` answers, mostly in the same
//!    list, sometimes after a `Resolve`. A `Reply` to a client that is gone is dropped. Of all
//!    other commands the driver serves those in [`SERVED`]; INFO ends with
//!    `Sentinel::info_section`, HELLO says `sentinel`.
//! 6. `Notify` is logged as `<event> <text>` if its level is high enough, and published: the event
//!    is the channel, the text the message.
//! 7. `RunScript` starts a process whose end is `ScriptEnded`; `KillScript` kills it. `Resolve`
//!    looks a host up, away from the loop; the answer, even if there is none, is `Resolved`.
//! 8. The time is in milliseconds, best from a clock that no operator can set. Where it jumps by
//!    more than two seconds or back, TILT begins: for half a minute nothing is concluded. Going
//!    back, it counts as standing still.
//!
//! Where it differs from redis-sentinel, on purpose: without a disk there are no votes; votes count
//! for the epoch of the failover they were asked for; two addresses that came to have the same
//! configuration epoch do not stay so (`meet`); a failover ends even if the promoted replica is
//! gone or another one is slow; a primary that refuses to hand over lets its writers go on; words
//! with blanks are quoted in the file; a clock that is set back puts nothing off.
//!
//! Invariants: a list of actions that tells anybody of a change begins with `Persist`; a Sentinel
//! votes once in each epoch of a primary; a replica is promoted by the leader of an epoch, or by an
//! operator's order; whatever instances, Sentinels and clients send, memory stays bounded.
#![forbid(unsafe_code)]

mod address;
mod commands;
mod context;
mod down;
mod election;
mod engine;
mod event;
mod failover;
mod failover_state_machine;
mod hello;
mod hello_processing;
mod info;
mod instance;
mod links;
mod notice;
mod periods;
mod primary;
mod read;
mod refresh;
mod reset;
mod rewrite;
mod scripts;
mod selection;
#[cfg(test)]
mod tests;
mod watch;

pub use commands::SERVED;
pub use context::Options;
pub use engine::Sentinel;
pub use event::{
    Action, ClientId, ConnectionId, Event, Millis, Purpose, REPLY_LIMITS, ScriptEnd, ScriptId,
};
pub use hello::HELLO_CHANNEL;
pub use notice::{Level, Notice};
pub use read::ConfigError;
