//! The configuration in: the `sentinel` lines of a file, in whatever order they stand.
//!
//! Invariants: settings that others need come first, then the primaries, then what is said about
//! them; the first statement in that order that cannot be taken is the one that is named.

use std::fmt;

use base::Random;
use base::number::{parse_i64, parse_u64};
use base::quote::split_arguments;

use crate::Millis;
use crate::address::{Address, AddressFault, is_host};
use crate::context::Options;
use crate::engine::Sentinel;
use crate::event::Action;
use crate::hello::EPOCH_MAX;
use crate::info::is_run_id;
use crate::primary::Primary;

/// A statement that cannot be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The number of the line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// The fault.
    pub reason: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigError { line, text, reason } = self;
        write!(formatter, "Reading the configuration file, at line {line}\n>>> '{text}'\n{reason}")
    }
}

impl std::error::Error for ConfigError {}

const UNRECOGNIZED: &str = "Unrecognized sentinel configuration statement.";
const NO_SUCH_MASTER: &str = "No such master with specified name.";
const PORT: &str = "Invalid port number.";
const HOST: &str = "Can't resolve instance hostname.";
const EPOCH: &str = "Invalid epoch.";

/// The order in which statements are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Settings,
    Monitor,
    Rest,
}

struct Statement {
    phase: Phase,
    line: usize,
    words: Vec<Vec<u8>>,
}

impl Sentinel {
    /// A Sentinel with the state that the text of a configuration file gives it, and its first
    /// actions. Lines that do not begin with `sentinel` are not looked at.
    pub fn start(
        options: Options,
        text: &[u8],
        now: Millis,
        random: Random,
    ) -> Result<(Sentinel, Vec<Action>), ConfigError> {
        let mut sentinel = Sentinel::empty(options, now, random);
        let mut statements = statements(text)?;
        statements.sort_by_key(|statement| statement.phase);
        for Statement { line, words, .. } in statements {
            sentinel.apply(&words).map_err(|reason| error(text, line, reason))?;
        }
        let actions = sentinel.begin();
        Ok((sentinel, actions))
    }

    fn apply(&mut self, words: &[Vec<u8>]) -> Result<(), &'static str> {
        let texts: Vec<&str> =
            words.iter().map(|word| std::str::from_utf8(word).unwrap_or_default()).collect();
        let keyword = texts.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default();
        match (keyword.as_str(), &texts[..]) {
            ("monitor", [_, name, host, port, quorum]) => self.monitor(name, host, port, quorum),
            ("known-replica" | "known-slave", [_, name, host, port]) => {
                self.known_replica(name, host, port)
            }
            ("known-sentinel", [_, name, host, port, id]) => self.known_peer(name, host, port, id),
            // A line from before ids were, which says too little.
            ("known-sentinel", [_, name, _, _]) => self.named(name).map(|_| ()),
            (_, [_, value]) => self.apply_setting(&keyword, value, &words[1]),
            (_, [_, name, value]) => self.apply_to_primary(&keyword, name, value, &words[2]),
            ("rename-command", [_, name, from, to]) => {
                let renamed = &mut self.named(name)?.head.settings.renamed;
                match renamed.insert(from.to_ascii_uppercase(), (*to).to_owned()) {
                    None => Ok(()),
                    Some(_) => Err("Same command renamed multiple times with rename-command."),
                }
            }
            _ => Err(UNRECOGNIZED),
        }
    }

    /// A statement about all.
    fn apply_setting(
        &mut self,
        keyword: &str,
        value: &str,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        let context = &mut self.context;
        match keyword {
            "myid" if is_run_id(value) => context.my_id = value.to_owned(),
            "myid" => return Err("Malformed Sentinel id in myid option."),
            "current-epoch" => context.current_epoch = context.current_epoch.max(epoch(value)?),
            "announce-ip" if !value.is_empty() && !is_host(value) => return Err(HOST),
            "announce-ip" => {
                context.globals.announce_ip = (!value.is_empty()).then(|| value.to_owned());
            }
            "announce-port" => {
                let port =
                    parse_u64(bytes).and_then(|port| u16::try_from(port).ok()).ok_or(PORT)?;
                context.globals.announce_port = (port > 0).then_some(port);
            }
            "deny-scripts-reconfig" => {
                context.globals.denies_scripts = yes_or_no(value)
                    .ok_or("Please specify yes or no for the deny-scripts-reconfig options.")?;
            }
            "resolve-hostnames" => {
                context.hosts.resolve = yes_or_no(value)
                    .ok_or("Please specify yes or no for the resolve-hostnames option.")?;
            }
            "announce-hostnames" => {
                context.hosts.announce = yes_or_no(value)
                    .ok_or("Please specify yes or no for the announce-hostnames option.")?;
            }
            "sentinel-user" => context.globals.user = some_bytes(bytes),
            "sentinel-pass" => context.globals.password = some_bytes(bytes),
            _ => return Err(UNRECOGNIZED),
        }
        Ok(())
    }

    /// A statement about one primary.
    fn apply_to_primary(
        &mut self,
        keyword: &str,
        name: &str,
        value: &str,
        bytes: &[u8],
    ) -> Result<(), &'static str> {
        if !PRIMARY_WORDS.contains(&keyword) {
            return Err(UNRECOGNIZED);
        }
        let Some(primary) = self.primaries.get_mut(name) else { return Err(NO_SUCH_MASTER) };
        let (context, head) = (&mut self.context, &mut primary.head);
        let settings = &mut head.settings;
        match keyword {
            "down-after-milliseconds" => settings.down_after = time(bytes)?,
            "failover-timeout" => settings.failover_timeout = time(bytes)?,
            // Of none at a time no failover would come to its end.
            "parallel-syncs" => settings.parallel_syncs = count(bytes).unwrap_or(1).max(1),
            "auth-pass" => settings.auth_pass = some_bytes(bytes),
            "auth-user" => settings.auth_user = some_bytes(bytes),
            "notification-script" => {
                if !(context.options.is_executable)(value) {
                    return Err("Notification script seems non existing or non executable.");
                }
                settings.notification_script = Some(value.to_owned());
            }
            "client-reconfig-script" => {
                if !(context.options.is_executable)(value) {
                    return Err(
                        "Client reconfiguration script seems non existing or non executable.",
                    );
                }
                settings.reconfig_script = Some(value.to_owned());
            }
            "master-reboot-down-after-period" => {
                let period = parse_i64(bytes).filter(|period| *period >= 0);
                settings.reboot_down_after = period.ok_or("negative time parameter.")?;
            }
            "config-epoch" => {
                head.config_epoch = epoch(value)?;
                context.current_epoch = context.current_epoch.max(head.config_epoch);
            }
            _ => head.leader_epoch = epoch(value)?,
        }
        primary.spread_down_after();
        Ok(())
    }

    fn monitor(
        &mut self,
        name: &str,
        host: &str,
        port: &str,
        quorum: &str,
    ) -> Result<(), &'static str> {
        let quorum = count(quorum.as_bytes()).filter(|quorum| *quorum > 0);
        let quorum = quorum.ok_or("Quorum must be 1 or greater.")?;
        if !is_name(name) {
            return Err(UNRECOGNIZED);
        }
        let address = self.address(host, port)?;
        if self.primaries.contains_key(name) {
            return Err("Duplicate master name.");
        }
        let primary = Primary::new(&mut self.context, name, address, quorum);
        self.primaries.insert(name.to_owned(), primary);
        Ok(())
    }

    fn known_replica(&mut self, name: &str, host: &str, port: &str) -> Result<(), &'static str> {
        self.named(name)?;
        let address = self.address(host, port)?;
        let Some(primary) = self.primaries.get_mut(name) else { return Err(NO_SUCH_MASTER) };
        match primary.add_replica(&mut self.context, address) {
            true => Ok(()),
            false => Err("Duplicate hostname and port for replica."),
        }
    }

    fn known_peer(
        &mut self,
        name: &str,
        host: &str,
        port: &str,
        id: &str,
    ) -> Result<(), &'static str> {
        self.named(name)?;
        let address = self.address(host, port)?;
        let Some(primary) = self.primaries.get_mut(name) else { return Err(NO_SUCH_MASTER) };
        match is_run_id(id) && primary.add_peer(&mut self.context, id, address) {
            true => Ok(()),
            false => Err("Duplicate runid for sentinel."),
        }
    }

    fn named(&mut self, name: &str) -> Result<&mut Primary, &'static str> {
        self.primaries.get_mut(name).ok_or(NO_SUCH_MASTER)
    }

    /// An address that may still be without its IP.
    fn address(&mut self, host: &str, port: &str) -> Result<Address, &'static str> {
        let port = parse_u64(port.as_bytes()).and_then(|port| u16::try_from(port).ok());
        let (port, now) = (port.ok_or(PORT)?, self.context.now);
        self.context.hosts.address(host, port, now).map_err(|fault| match fault {
            AddressFault::Host | AddressFault::Asked => HOST,
        })
    }
}

/// The statements of a file.
fn statements(text: &[u8]) -> Result<Vec<Statement>, ConfigError> {
    let mut statements = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if !is_ours(line) {
            continue;
        }
        let Some(mut words) = split_arguments(line) else {
            return Err(error(text, index + 1, "Unbalanced quotes in configuration line"));
        };
        words.remove(0);
        statements.push(Statement { phase: phase(&words), line: index + 1, words });
    }
    Ok(statements)
}

/// Whether a line of a configuration file is a Sentinel's.
pub(crate) fn is_ours(line: &[u8]) -> bool {
    let line = line.trim_ascii_start();
    let (word, rest) = line.split_at(line.len().min(SENTINEL.len()));
    let ends = rest.first().is_none_or(u8::is_ascii_whitespace);
    word.eq_ignore_ascii_case(SENTINEL) && ends
}

const SENTINEL: &[u8] = b"sentinel";

/// Words that take a primary's name and one value.
const PRIMARY_WORDS: [&str; 10] = [
    "down-after-milliseconds",
    "failover-timeout",
    "parallel-syncs",
    "auth-pass",
    "auth-user",
    "notification-script",
    "client-reconfig-script",
    "master-reboot-down-after-period",
    "config-epoch",
    "leader-epoch",
];

fn phase(words: &[Vec<u8>]) -> Phase {
    let first = [
        "announce-ip",
        "announce-port",
        "deny-scripts-reconfig",
        "sentinel-user",
        "sentinel-pass",
        "current-epoch",
        "myid",
        "resolve-hostnames",
        "announce-hostnames",
    ];
    let is = |name: &str| words.first().is_some_and(|it| it.eq_ignore_ascii_case(name.as_bytes()));
    match () {
        () if is("monitor") => Phase::Monitor,
        () if first.into_iter().any(is) => Phase::Settings,
        () => Phase::Rest,
    }
}

fn error(text: &[u8], line: usize, reason: &'static str) -> ConfigError {
    let bytes = text.split(|byte| *byte == b'\n').nth(line - 1).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes.trim_ascii()).into_owned();
    ConfigError { line, text, reason }
}

/// Whether a text may name a primary. Control characters, which end lines, newer versions of Redis
/// refuse as well. A comma sets the fields of hellos apart: as in Redis, Sentinels do not find each
/// other by such a name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| !byte.is_ascii_control();
    !name.is_empty() && name.len() <= 1024 && name.bytes().all(is_plain)
}

pub(crate) fn yes_or_no(word: &str) -> Option<bool> {
    match word.to_ascii_lowercase().as_str() {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

/// An empty text stands for none.
pub(crate) fn some_bytes(bytes: &[u8]) -> Option<Vec<u8>> {
    (!bytes.is_empty()).then(|| bytes.to_vec())
}

fn epoch(text: &str) -> Result<u64, &'static str> {
    parse_u64(text.as_bytes()).filter(|epoch| *epoch <= EPOCH_MAX).ok_or(EPOCH)
}

fn time(bytes: &[u8]) -> Result<Millis, &'static str> {
    positive_time(bytes).ok_or("negative or zero time parameter.")
}

/// A time that can be added to others.
pub(crate) fn positive_time(bytes: &[u8]) -> Option<Millis> {
    parse_i64(bytes).filter(|time| (1..=i64::MAX >> 8).contains(time))
}

fn count(bytes: &[u8]) -> Option<u32> {
    parse_u64(bytes).and_then(|count| u32::try_from(count).ok())
}
