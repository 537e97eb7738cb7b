//! What operators tell a Sentinel about itself: its settings, its times, simulated failures.
//!
//! Invariant: of a list of settings either all are taken or none.

use base::glob;
use proto::{Args, Reply};

use super::change::is_announceable;
use super::{Answer, refuse, shown, text};
use crate::context::{Context, Failures, Globals};
use crate::engine::Sentinel;
use crate::event::Action;
use crate::notice::Level;
use crate::read::{positive_time, some_bytes, yes_or_no};

/// SENTINEL FLUSHCONFIG
pub(super) fn flushconfig(sentinel: &mut Sentinel, _: Args<'_>, mut reply: Reply<'_>) -> Answer {
    sentinel.context.persist();
    reply.ok();
    Answer::Promise
}

/// SENTINEL CONFIG GET pattern [pattern ...] | SET option value [option value ...]
pub(super) fn config(sentinel: &mut Sentinel, args: Args<'_>, reply: Reply<'_>) -> Answer {
    let is = |word: &[u8]| args[2].eq_ignore_ascii_case(word);
    if args.len() < 4 {
        refuse(reply, "ERR wrong number of arguments for 'sentinel|config' command")
    } else if is(b"GET") {
        config_get(&sentinel.context, args.skip(3), reply)
    } else if is(b"SET") && args.len() >= 5 {
        config_set(sentinel, args.skip(3), reply)
    } else {
        let text = "ERR Only SENTINEL CONFIG GET <param> [<param> <param> ...] / SET <param> \
                    <value> [<param> <value> ...] are supported.";
        refuse(reply, text)
    }
}

fn config_get(context: &Context, patterns: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let word = |is_so: bool| if is_so { b"yes".to_vec() } else { b"no".to_vec() };
    let globals = &context.globals;
    let port = globals.announce_port.unwrap_or(0).to_string();
    let settings = [
        ("resolve-hostnames", word(context.hosts.resolve)),
        ("announce-hostnames", word(context.hosts.announce)),
        ("announce-ip", globals.announce_ip.clone().unwrap_or_default().into_bytes()),
        ("announce-port", port.into_bytes()),
        ("sentinel-user", globals.user.clone().unwrap_or_default()),
        ("sentinel-pass", globals.password.clone().unwrap_or_default()),
        ("loglevel", context.options.log_level.word().as_bytes().to_vec()),
    ];
    let is_asked =
        |name: &str| patterns.iter().any(|pattern| glob::matches(pattern, name.as_bytes(), true));
    let asked: Vec<_> = settings.iter().filter(|(name, _)| is_asked(name)).collect();
    reply.map(asked.len());
    for (name, value) in asked {
        reply.bulk(name.as_bytes());
        reply.bulk(value);
    }
    Answer::Ready
}

/// The settings that CONFIG SET changes, until all are known to be right.
struct Draft {
    globals: Globals,
    resolve: bool,
    announce: bool,
    log_level: Level,
}

fn config_set(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let context = &mut sentinel.context;
    let mut draft = Draft {
        globals: context.globals.clone(),
        resolve: context.hosts.resolve,
        announce: context.hosts.announce,
        log_level: context.options.log_level,
    };
    let mut seen: Vec<String> = Vec::new();
    for at in (0..args.len()).step_by(2) {
        let option = text(args, at).to_ascii_lowercase();
        let name = shown(args, at);
        let Some(value) = args.get(at + 1) else {
            return refuse(
                reply,
                format!("ERR Missing argument '{name}' value to SENTINEL CONFIG SET"),
            );
        };
        if seen.contains(&option) {
            return refuse(
                reply,
                format!("ERR Duplicate argument '{name}' to SENTINEL CONFIG SET"),
            );
        }
        match draft.take(context, &option, value, text(args, at + 1)) {
            Ok(()) => seen.push(option),
            Err(Wrong::Option) => {
                return refuse(
                    reply,
                    format!("ERR Invalid argument '{name}' to SENTINEL CONFIG SET"),
                );
            }
            Err(Wrong::Value) => {
                let value = shown(args, at + 1);
                let text = format!("ERR Invalid value '{value}' to SENTINEL CONFIG SET '{name}'");
                return refuse(reply, text);
            }
        }
    }
    context.globals = draft.globals;
    (context.hosts.resolve, context.hosts.announce) = (draft.resolve, draft.announce);
    if context.options.log_level != draft.log_level {
        context.options.log_level = draft.log_level;
        context.push_action(Action::SetLogLevel(draft.log_level));
    }
    if seen.iter().any(|option| option.starts_with("sentinel-")) {
        sentinel.reconnect_peers();
    }
    sentinel.context.persist();
    reply.ok();
    Answer::Promise
}

/// What is wrong with a setting.
enum Wrong {
    Option,
    Value,
}

impl Draft {
    fn take(
        &mut self,
        context: &Context,
        option: &str,
        value: &[u8],
        value_text: &str,
    ) -> Result<(), Wrong> {
        match option {
            "resolve-hostnames" => self.resolve = yes_or_no(value_text).ok_or(Wrong::Value)?,
            "announce-hostnames" => self.announce = yes_or_no(value_text).ok_or(Wrong::Value)?,
            "announce-ip" => {
                if !value.is_empty() && !is_announceable(&context.hosts, value_text) {
                    return Err(Wrong::Value);
                }
                self.globals.announce_ip = (!value.is_empty()).then(|| value_text.to_owned());
            }
            "announce-port" => {
                let port = base::number::parse_u64(value);
                let port = port.and_then(|port| u16::try_from(port).ok()).ok_or(Wrong::Value)?;
                self.globals.announce_port = (port > 0).then_some(port);
            }
            "sentinel-user" => self.globals.user = some_bytes(value),
            "sentinel-pass" => self.globals.password = some_bytes(value),
            "loglevel" => self.log_level = Level::named(value_text).ok_or(Wrong::Value)?,
            _ => return Err(Wrong::Option),
        }
        Ok(())
    }
}

impl Sentinel {
    /// Connects to the other Sentinels anew, with other credentials.
    fn reconnect_peers(&mut self) {
        for primary in self.primaries.values() {
            for peer in primary.peers.values() {
                self.context.close_all(peer.instance.link);
            }
        }
    }
}

/// SENTINEL DEBUG [period milliseconds ...]
pub(super) fn debug(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    if args.len() == 2 {
        let periods = sentinel.context.periods.named();
        reply.map(periods.len());
        for (name, value) in periods {
            reply.bulk(name.as_bytes());
            reply.bulk_integer(*value);
        }
        return Answer::Ready;
    }
    for at in (2..args.len()).step_by(2) {
        let name = text(args, at);
        let mut periods = sentinel.context.periods.named();
        let period = periods.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let (Some((_, period)), Some(value)) = (period, args.get(at + 1)) else {
            let name = shown(args, at);
            return refuse(
                reply,
                format!("ERR Unknown option or number of arguments for SENTINEL DEBUG '{name}'"),
            );
        };
        let Some(value) = positive_time(value) else {
            let (value, name) = (shown(args, at + 1), shown(args, at));
            return refuse(
                reply,
                format!("ERR Invalid argument '{value}' for SENTINEL DEBUG '{name}'"),
            );
        };
        **period = value;
    }
    reply.ok();
    Answer::Ready
}

const FAILURES: [&str; 2] = ["crash-after-election", "crash-after-promotion"];

/// SENTINEL SIMULATE-FAILURE [crash-after-election] [crash-after-promotion] [help]
pub(super) fn simulate_failure(
    sentinel: &mut Sentinel,
    args: Args<'_>,
    mut reply: Reply<'_>,
) -> Answer {
    let context = &mut sentinel.context;
    context.failures = Failures::default();
    for index in 2..args.len() {
        let word = text(args, index).to_ascii_lowercase();
        match word.as_str() {
            "crash-after-election" => context.failures.after_election = true,
            "crash-after-promotion" => context.failures.after_promotion = true,
            "help" => {
                reply.array(FAILURES.len());
                FAILURES.iter().for_each(|name| reply.bulk(name.as_bytes()));
                return Answer::Ready;
            }
            _ => return refuse(reply, "ERR Unknown failure simulation specified"),
        }
        context.log(Level::Warning, format!("Failure simulation: this Sentinel will {word}"));
    }
    reply.ok();
    Answer::Ready
}

/// SENTINEL HELP
pub(super) fn help(_: &mut Sentinel, _: Args<'_>, mut reply: Reply<'_>) -> Answer {
    reply.array(HELP.len() + 3);
    reply.simple("SENTINEL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
    HELP.iter().for_each(|line| reply.simple(line));
    reply.simple("HELP");
    reply.simple("    Print this help.");
    Answer::Ready
}

const HELP: [&str; 44] = [
    "CKQUORUM <master-name>",
    "    Say whether enough Sentinels are there to agree on and authorize a failover.",
    "CONFIG GET <pattern> [<pattern> ...]",
    "    Return settings of this Sentinel.",
    "CONFIG SET <param> <value> [<param> <value> ...]",
    "    Change settings of this Sentinel.",
    "DEBUG [<param> <value> ...]",
    "    Return or change the times, in milliseconds, that this Sentinel goes by.",
    "FAILOVER <master-name> [COORDINATED]",
    "    Fail over without asking other Sentinels, or in step with the primary.",
    "FLUSHCONFIG",
    "    Write the configuration, the state included, to disk.",
    "GET-MASTER-ADDR-BY-NAME <master-name>",
    "    Return the ip and the port of the primary of that name.",
    "INFO-CACHE <master-name> [<master-name> ...]",
    "    Return the last INFO of primaries and of their replicas.",
    "IS-MASTER-DOWN-BY-ADDR <ip> <port> <current-epoch> <runid>",
    "    Say whether a primary is down, as this Sentinel sees it, and vote.",
    "MASTER <master-name>",
    "    Return the state of a primary.",
    "MASTERS",
    "    Return the state of all primaries.",
    "MONITOR <name> <ip> <port> <quorum>",
    "    Begin to watch a primary.",
    "MYID",
    "    Return the id of this Sentinel.",
    "PENDING-SCRIPTS",
    "    Return the scripts that wait or run.",
    "REMOVE <master-name>",
    "    Watch a primary no longer.",
    "REPLICAS <master-name>",
    "    Return the state of the replicas of a primary.",
    "RESET <pattern>",
    "    Forget what is known of the primaries whose names match.",
    "SENTINELS <master-name>",
    "    Return the state of the other Sentinels of a primary.",
    "SET <master-name> <option> <value> [<option> <value> ...]",
    "    Change settings of a primary.",
    "SIMULATE-FAILURE [CRASH-AFTER-ELECTION] [CRASH-AFTER-PROMOTION] [HELP]",
    "    End this process at a certain point of a failover.",
    "SLAVES <master-name>",
    "    The same as REPLICAS.",
    "PRIMARIES, PRIMARY, GET-PRIMARY-ADDR-BY-NAME, IS-PRIMARY-DOWN-BY-ADDR",
    "    Other names of what is called so with MASTER.",
];
