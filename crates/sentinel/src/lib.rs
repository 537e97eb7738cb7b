//! Our own Sentinel, without sockets, files and a clock: events in, actions out.
#![forbid(unsafe_code)]

mod address;
mod advance;
mod commands;
mod context;
mod down;
mod election;
mod engine;
mod event;
mod failover;
mod hello;
mod info;
mod instance;
mod links;
mod meet;
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
