//! SENTINEL, and what ROLE and PUBLISH are in a Sentinel: lookup, arity, the reply as an action.
//!
//! Invariant: a command is answered once: now, or when the host that it waits for is looked up.

mod change;
mod global;
mod question;
mod show;

use proto::{Args, Output, OwnedArgs, Reply, Resp};

use crate::engine::{Parked, Sentinel};
use crate::event::{Action, ClientId};
use crate::hello::HELLO_CHANNEL;

/// The commands that a Sentinel serves; all others are unknown to it.
pub const SERVED: [&str; 15] = [
    "acl",
    "auth",
    "client",
    "command",
    "hello",
    "info",
    "ping",
    "psubscribe",
    "publish",
    "punsubscribe",
    "role",
    "sentinel",
    "shutdown",
    "subscribe",
    "unsubscribe",
];

/// What is left to do about a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    /// The reply can go.
    Ready,
    /// The reply can go once the configuration is on disk.
    Promise,
    /// There is none until this host is looked up.
    Parked(String),
}

/// How many words a command has, itself and SENTINEL included.
#[derive(Clone, Copy, Debug)]
enum Arity {
    Exactly(usize),
    AtLeast(usize),
}

impl Arity {
    fn fits(self, count: usize) -> bool {
        match self {
            Arity::Exactly(expected) => count == expected,
            Arity::AtLeast(least) => count >= least,
        }
    }
}

type Handler = fn(&mut Sentinel, Args<'_>, Reply<'_>) -> Answer;

/// A subcommand of SENTINEL.
struct Subcommand {
    name: &'static str,
    /// What Valkey calls it.
    alias: &'static str,
    arity: Arity,
    run: Handler,
}

const fn subcommand(
    name: &'static str,
    alias: &'static str,
    arity: Arity,
    run: Handler,
) -> Subcommand {
    Subcommand { name, alias, arity, run }
}

const SUBCOMMANDS: [Subcommand; 21] = [
    subcommand("ckquorum", "", Arity::Exactly(3), question::ckquorum),
    subcommand("config", "", Arity::AtLeast(3), global::config),
    subcommand("debug", "", Arity::AtLeast(2), global::debug),
    subcommand("failover", "", Arity::AtLeast(3), change::failover),
    subcommand("flushconfig", "", Arity::Exactly(2), global::flushconfig),
    subcommand(
        "get-master-addr-by-name",
        "get-primary-addr-by-name",
        Arity::Exactly(3),
        question::get_master_addr_by_name,
    ),
    subcommand("help", "", Arity::Exactly(2), global::help),
    subcommand("info-cache", "", Arity::AtLeast(3), show::info_cache),
    subcommand(
        "is-master-down-by-addr",
        "is-primary-down-by-addr",
        Arity::Exactly(6),
        question::is_master_down_by_addr,
    ),
    subcommand("master", "primary", Arity::Exactly(3), show::master),
    subcommand("masters", "primaries", Arity::Exactly(2), show::masters),
    subcommand("monitor", "", Arity::Exactly(6), change::monitor),
    subcommand("myid", "", Arity::Exactly(2), question::myid),
    subcommand("pending-scripts", "", Arity::Exactly(2), show::pending_scripts),
    subcommand("remove", "", Arity::Exactly(3), change::remove),
    subcommand("replicas", "", Arity::Exactly(3), show::replicas),
    subcommand("reset", "", Arity::Exactly(3), change::reset),
    subcommand("sentinels", "", Arity::Exactly(3), show::sentinels),
    subcommand("set", "", Arity::AtLeast(5), change::set),
    subcommand("simulate-failure", "", Arity::AtLeast(3), global::simulate_failure),
    subcommand("slaves", "", Arity::Exactly(3), show::replicas),
];

const NO_SUCH_MASTER: &str = "ERR No such master with that name";

impl Sentinel {
    /// Runs a command of a client.
    pub(crate) fn command(&mut self, client: ClientId, resp: Resp, owned: &OwnedArgs) {
        let mut output = Output::new();
        let args = owned.as_args();
        let answer = self.run(args, Reply::new(&mut output, resp));
        let is_promise = match answer {
            Answer::Ready => false,
            Answer::Promise => true,
            Answer::Parked(host) => {
                self.parked.push(Parked { host, client, resp, args: owned.clone() });
                return;
            }
        };
        let bytes = bytes_of(output);
        self.context.push_action(Action::Reply { client, bytes, is_promise });
    }

    fn run(&mut self, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
        // The crate knows no declarations: commands come by the names that they were declared by.
        let is = |name: &[u8]| args.get(0).is_some_and(|word| word.eq_ignore_ascii_case(name));
        if is(b"ROLE") {
            return show::role(self, args, reply);
        }
        if is(b"PUBLISH") {
            return self.publish(args, reply);
        }
        let Some(word) = args.get(1) else {
            reply.error("ERR wrong number of arguments for 'sentinel' command");
            return Answer::Ready;
        };
        let is_named = |name: &str| !name.is_empty() && word.eq_ignore_ascii_case(name.as_bytes());
        let found = SUBCOMMANDS.iter().find(|it| is_named(it.name) || is_named(it.alias));
        match found {
            None => {
                let shown = String::from_utf8_lossy(base::quote::shown(word, 128)).into_owned();
                reply.error(format!("ERR unknown subcommand '{shown}'. Try SENTINEL HELP."));
                Answer::Ready
            }
            Some(command) if !command.arity.fits(args.len()) => {
                let name = command.name;
                reply.error(format!("ERR wrong number of arguments for 'sentinel|{name}' command"));
                Answer::Ready
            }
            Some(command) => (command.run)(self, args, reply),
        }
    }

    /// PUBLISH, by which Sentinels say hello to each other.
    fn publish(&mut self, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
        if args.len() != 3 {
            reply.error("ERR wrong number of arguments for 'publish' command");
        } else if &args[1] != HELLO_CHANNEL.as_bytes() {
            reply.error("ERR Only HELLO messages are accepted by Sentinel instances.");
        } else {
            self.take_hello(&args[2]);
            reply.integer(1);
        }
        Answer::Ready
    }
}

/// All bytes of an output.
fn bytes_of(mut output: Output) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(output.len());
    while !output.is_empty() {
        let count = output.front().len();
        bytes.extend_from_slice(output.front());
        output.consume(count);
    }
    bytes
}

/// A word of a client as text; what is no text is no name of anything.
fn text<'a>(args: Args<'a>, index: usize) -> &'a str {
    let word = args.get(index).unwrap_or_default();
    std::str::from_utf8(word).unwrap_or_default()
}

/// A word of a client as errors show it.
fn shown(args: Args<'_>, index: usize) -> String {
    let word = args.get(index).unwrap_or_default();
    String::from_utf8_lossy(base::quote::shown(word, 128)).into_owned()
}

/// Answers with an error.
fn refuse(mut reply: Reply<'_>, text: impl AsRef<[u8]>) -> Answer {
    reply.error(text);
    Answer::Ready
}
