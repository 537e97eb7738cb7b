//! The whole border to the driver, in two enums: events in, actions out.
//!
//! Invariant: an action holds all that its execution needs; nothing is looked up later, but for
//! the text of the configuration, which is made when it is written.

use std::net::{IpAddr, SocketAddr};

use proto::value::{ReplyLimits, Value};
use proto::{OwnedArgs, Resp};

use crate::notice::{Level, Notice};

/// Milliseconds of the wall clock. The clock may jump: that is what TILT is for.
pub type Millis = i64;

/// A connection that the engine has asked for; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A client of this Sentinel, in the driver's count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId(pub u64);

/// A run of a script; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ScriptId(pub u64);

/// An event, told by the driver.
#[derive(Clone, Debug)]
pub enum Event {
    /// The time that [`Action::ScheduleTick`] named has come.
    Tick,
    /// A connection stands; `local` is its address on this side.
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// This side's address.
        local: IpAddr,
    },
    /// A connection could not be made or was lost. Not for those that the engine closed.
    Disconnected {
        /// The connection.
        connection: ConnectionId,
    },
    /// A reply, or a message of pub/sub, has come over a connection.
    Received {
        /// The connection.
        connection: ConnectionId,
        /// The reply or the message.
        value: Value,
    },
    /// A client has sent SENTINEL, ROLE or PUBLISH.
    Command {
        /// The client.
        client: ClientId,
        /// The version that the client speaks.
        resp: Resp,
        /// Its words.
        args: OwnedArgs,
    },
    /// A host was looked up, as [`Action::Resolve`] asked.
    Resolved {
        /// The host.
        host: String,
        /// The answer, if there is any.
        ip: Option<IpAddr>,
    },
    /// A script has begun.
    ScriptStarted {
        /// The script.
        script: ScriptId,
        /// The number of its process.
        pid: u32,
    },
    /// A script has ended.
    ScriptEnded {
        /// The script.
        script: ScriptId,
        /// How.
        end: ScriptEnd,
    },
}

/// How a script ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptEnd {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
    /// The process could not be started.
    NotStarted,
}

/// The purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Commands and their replies.
    Commands,
    /// Messages of the hello channel.
    Messages,
}

/// An order to the driver.
#[derive(Clone, Debug)]
pub enum Action {
    /// Put the rewritten configuration on disk, before anything else of the same list is done.
    Persist,
    /// Send a client its reply.
    Reply {
        /// The client.
        client: ClientId,
        /// The reply, encoded.
        bytes: Vec<u8>,
        /// Whether the reply promises what must be on disk.
        is_promise: bool,
    },
    /// Make a connection.
    Connect {
        /// Its name from now on.
        connection: ConnectionId,
        /// The address.
        to: SocketAddr,
        /// The purpose.
        purpose: Purpose,
    },
    /// Close a connection and forget it.
    Close {
        /// The connection.
        connection: ConnectionId,
    },
    /// Send a command over a connection.
    Send {
        /// The connection.
        connection: ConnectionId,
        /// Its words.
        command: OwnedArgs,
        /// Whether the command promises what must be on disk.
        is_promise: bool,
    },
    /// Log an event and publish it to its subscribers.
    Notify(Notice),
    /// Write a line to the log, which is no event.
    Log {
        /// The level.
        level: Level,
        /// The line.
        text: String,
    },
    /// Start a script.
    RunScript {
        /// Its name from now on.
        script: ScriptId,
        /// The file.
        path: String,
        /// The arguments.
        arguments: Vec<String>,
    },
    /// Kill a script that runs too long.
    KillScript {
        /// The script.
        script: ScriptId,
    },
    /// Look up a host.
    Resolve {
        /// The host.
        host: String,
    },
    /// Say [`Event::Tick`] after so many milliseconds.
    ScheduleTick {
        /// The time, in milliseconds.
        after: u64,
    },
    /// Log from this level on, as SENTINEL CONFIG SET loglevel asked.
    SetLogLevel(Level),
    /// End the process at once with this status: SENTINEL SIMULATE-FAILURE.
    Crash {
        /// The status.
        status: i32,
    },
}

/// The limits of the links' parsers: an instance may be hostile.
pub const REPLY_LIMITS: ReplyLimits = ReplyLimits { bulk: 1 << 20, elements: 4096, depth: 4 };
