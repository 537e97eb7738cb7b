//! What operators tell a Sentinel about one primary: to watch it, to forget it, to fail it over,
//! to watch it otherwise.
//!
//! Invariant: a list of options is taken up to the first that is wrong; what was taken is on disk
//! before anybody is told.

use std::net::IpAddr;

use base::number::parse_i64;
use proto::{Args, Reply};

use super::question::positive;
use super::{Answer, NO_SUCH_MASTER, refuse, shown, text};
use crate::address::{AddressFault, Hosts, is_host};
use crate::context::Context;
use crate::engine::Sentinel;
use crate::failover::FailoverKind;
use crate::notice::Level;
use crate::primary::{Primary, PrimaryState};
use crate::read::{is_name, positive_time, some_bytes};
use crate::reset::Peers;

/// SENTINEL MONITOR name ip port quorum
pub(super) fn monitor(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(quorum) = parse_i64(&args[5]) else {
        return refuse(reply, "ERR Invalid quorum");
    };
    let Some(port) = parse_i64(&args[4]) else {
        return refuse(reply, "ERR Invalid port");
    };
    let Some(quorum) = u32::try_from(quorum).ok().filter(|quorum| *quorum > 0) else {
        return refuse(reply, "ERR Quorum must be 1 or greater.");
    };
    let (name, host) = (text(args, 2), text(args, 3));
    if !is_name(name) {
        return refuse(reply, "ERR Invalid master name");
    }
    let context = &mut sentinel.context;
    let looked_up = context.address_of(host, 1);
    let mut address = match looked_up {
        Ok(address) => address,
        Err(AddressFault::Asked) => return Answer::Parked(host.to_owned()),
        Err(AddressFault::Host) => {
            return refuse(reply, "ERR Invalid IP address or hostname specified");
        }
    };
    let Ok(port) = u16::try_from(port) else {
        return refuse(reply, "ERR Invalid port number.");
    };
    address.port = port;
    if sentinel.primaries.contains_key(name) {
        return refuse(reply, "ERR Duplicate master name.");
    }
    let primary = Primary::new(context, name, address, quorum);
    let text = format!("{} quorum {quorum}", primary.head.text(context));
    context.notify(Level::Warning, "+monitor", text);
    sentinel.primaries.insert(name.to_owned(), primary);
    sentinel.context.persist();
    reply.ok();
    Answer::Promise
}

/// SENTINEL REMOVE name
pub(super) fn remove(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(primary) = sentinel.primaries.remove(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    let context = &mut sentinel.context;
    let text = primary.head.text(context);
    primary.head.warn(context, "-monitor", text);
    primary.release(context);
    context.persist();
    reply.ok();
    Answer::Promise
}

/// SENTINEL RESET pattern
pub(super) fn reset(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let names = sentinel.matching(&args[2]);
    let context = &mut sentinel.context;
    for name in &names {
        if let Some(primary) = sentinel.primaries.get_mut(name) {
            primary.reset(context, Peers::Forget);
            let text = primary.head.text(context);
            primary.head.warn(context, "+reset-master", text);
            context.persist();
        }
    }
    reply.integer(names.len() as i64);
    Answer::Promise
}

/// SENTINEL FAILOVER name [COORDINATED]
pub(super) fn failover(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let kind = match args.get(3) {
        None => FailoverKind::Forced,
        Some(word) if word.eq_ignore_ascii_case(b"COORDINATED") && args.len() == 4 => {
            FailoverKind::Coordinated
        }
        Some(_) => return refuse(reply, "ERR syntax error"),
    };
    let Some(primary) = sentinel.primaries.get_mut(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    let context = &mut sentinel.context;
    if primary.head.failover.is_running() {
        return refuse(reply, "INPROG Failover already in progress");
    }
    if kind == FailoverKind::Coordinated && primary.head.node.own_failover.is_none() {
        return refuse(reply, "NOGOODPRIMARY Primary does not support FAILOVER command");
    }
    if primary.best_replica(context).is_none() {
        return refuse(reply, "NOGOODSLAVE No suitable replica to promote");
    }
    let name = &primary.head.name;
    context.log(Level::Warning, format!("Executing user requested FAILOVER of '{name}'"));
    primary.start_failover(context, kind);
    if kind == FailoverKind::Coordinated {
        primary.ask_peers(context, true);
    }
    reply.ok();
    Answer::Promise
}

/// Why an option is not taken.
enum Refusal {
    Unknown,
    Value(usize),
    Text(&'static str),
}

/// SENTINEL SET name option value [option value ...]
pub(super) fn set(sentinel: &mut Sentinel, args: Args<'_>, mut reply: Reply<'_>) -> Answer {
    let Some(primary) = sentinel.primaries.get_mut(text(args, 2)) else {
        return refuse(reply, NO_SUCH_MASTER);
    };
    let context = &mut sentinel.context;
    let old = (primary.head.settings.auth_user.clone(), primary.head.settings.auth_pass.clone());
    let mut at = 3;
    let mut refusal = None;
    while at < args.len() && refusal.is_none() {
        match set_option(context, &mut primary.head, args, at) {
            Ok(values) => {
                let words: Vec<String> =
                    (at..=at + values).map(|index| shown_option(args, at, index)).collect();
                let text = format!("{} {}", primary.head.text(context), words.join(" "));
                primary.head.warn(context, "+set", text);
                context.persist();
                at += 1 + values;
            }
            Err(reason) => refusal = Some(reason),
        }
    }
    primary.spread_down_after();
    let settings = &primary.head.settings;
    if (&settings.auth_user, &settings.auth_pass) != (&old.0, &old.1) {
        primary.close_nodes(context);
    }
    let option = shown(args, at);
    match refusal {
        None => reply.ok(),
        Some(Refusal::Text(text)) => reply.error(text),
        Some(Refusal::Unknown) => reply.error(format!(
            "ERR Unknown option or number of arguments for SENTINEL SET '{option}'"
        )),
        Some(Refusal::Value(index)) => {
            let value = shown(args, index);
            reply.error(format!("ERR Invalid argument '{value}' for SENTINEL SET '{option}'"));
        }
    }
    Answer::Promise
}

/// A word of an option as the event has it: passwords are nobody's business.
fn shown_option(args: Args<'_>, option: usize, index: usize) -> String {
    let is_secret = args[option].eq_ignore_ascii_case(b"auth-pass") && index > option;
    if is_secret { "******".to_owned() } else { shown(args, index) }
}

/// Takes one option: how many values it has.
fn set_option(
    context: &Context,
    head: &mut PrimaryState,
    args: Args<'_>,
    at: usize,
) -> Result<usize, Refusal> {
    let option = text(args, at).to_ascii_lowercase();
    let (Some(value), settings) = (args.get(at + 1), &mut head.settings) else {
        return Err(Refusal::Unknown);
    };
    let wrong = Refusal::Value(at + 1);
    match option.as_str() {
        "down-after-milliseconds" => settings.down_after = positive_time(value).ok_or(wrong)?,
        "failover-timeout" => settings.failover_timeout = positive_time(value).ok_or(wrong)?,
        "parallel-syncs" => settings.parallel_syncs = positive(value).ok_or(wrong)?,
        "quorum" => settings.quorum = positive(value).ok_or(wrong)?,
        "master-reboot-down-after-period" => {
            settings.reboot_down_after =
                parse_i64(value).filter(|period| *period >= 0).ok_or(wrong)?;
        }
        "auth-pass" => settings.auth_pass = some_bytes(value),
        "auth-user" => settings.auth_user = some_bytes(value),
        "notification-script" => {
            settings.notification_script = script(context, text(args, at + 1), wrong)?;
        }
        "client-reconfig-script" => {
            settings.reconfig_script = script(context, text(args, at + 1), wrong)?;
        }
        "rename-command" => {
            let (from, to) = (text(args, at + 1), text(args, at + 2));
            if args.get(at + 2).is_none() {
                return Err(Refusal::Unknown);
            }
            if from.is_empty() || to.is_empty() {
                return Err(Refusal::Value(at + if from.is_empty() { 1 } else { 2 }));
            }
            let name = from.to_ascii_uppercase();
            match from.eq_ignore_ascii_case(to) {
                true => settings.renamed.remove(&name),
                false => settings.renamed.insert(name, to.to_owned()),
            };
            return Ok(2);
        }
        _ => return Err(Refusal::Unknown),
    }
    Ok(1)
}

fn script(context: &Context, path: &str, wrong: Refusal) -> Result<Option<String>, Refusal> {
    if context.globals.denies_scripts {
        return Err(Refusal::Text(
            "ERR Reconfiguration of scripts path is denied for security reasons. Check the \
             deny-scripts-reconfig configuration directive in your Sentinel configuration",
        ));
    }
    match path {
        "" => Ok(None),
        path if (context.options.is_executable)(path) => Ok(Some(path.to_owned())),
        _ => Err(wrong),
    }
}

/// Whether a host may be announced as ours.
pub(super) fn is_announceable(hosts: &Hosts, host: &str) -> bool {
    host.parse::<IpAddr>().is_ok() || (hosts.resolve && is_host(host))
}
