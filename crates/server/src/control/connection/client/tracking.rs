//! CLIENT subcommands about client-side caching.
//!
//! Invariant: they only say what the client wants; `tracking` sees to it.

use std::sync::atomic::Ordering;

use commands::arguments::{Options, is};
use commands::declare::{Command, Flags, Spec, at_least, exactly};
use commands::errors::SYNTAX;
use engine::clients::client_id::ClientId;
use engine::clients::registry::client_flags;
use engine::observe::tracking::{TrackingMode, TrackingOptions, TrackingRegistration};
use keyspace::Refusal;
use proto::{Args, Reply};

use super::specs::OF_ITSELF;
use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::server::Server;

const NO_TARGET: Refusal = Refusal::error("ERR The client ID you want redirect to does not exist");
const TWO_TARGETS: Refusal =
    Refusal::error("ERR A client can only redirect to a single other client");
const PREFIX_WITHOUT_BROADCAST: Refusal =
    Refusal::error("ERR PREFIX option requires BCAST mode to be enabled");
const OTHER_BROADCAST: Refusal = Refusal::error(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const CHOICE_OF_BROADCAST: Refusal =
    Refusal::error("ERR OPTIN and OPTOUT are not compatible with BCAST");
const TWO_CHOICES: Refusal =
    Refusal::error("ERR You can't specify both OPTIN mode and OPTOUT mode");
const OTHER_CHOICE: Refusal = Refusal::error(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
     re-enabling it with a different mode.",
);
const CACHING_WITHOUT_CHOICE: Refusal = Refusal::error(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
     OPTOUT mode enabled",
);
const YES_WITHOUT_OPTIN: Refusal =
    Refusal::error("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
const NO_WITHOUT_OPTOUT: Refusal =
    Refusal::error("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");

pub(super) const TRACKING: ControlCommand = Command {
    spec: Spec {
        name: "TRACKING",
        since: "6.0.0",
        syntax: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] \
         [OPTIN] [OPTOUT] [NOLOOP]",
        summary: "Controls server-assisted client-side caching for the connection.",
        complexity: "O(1). Some options may introduce additional complexity.",
        arity: at_least(3),
        flags: OF_ITSELF.flags.and(Flags::SESSION),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: tracking,
};

fn tracking(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let (server, session) = (context.server, context.session()?);
    let asked = RequestedOptions::parse(server, args)?;
    match &args[2] {
        word if is(word, "ON") => {
            let present = session.tracked().map(|tracked| &tracked.tracker.options);
            let options = asked.options(present)?;
            if options.mode != TrackingMode::OptIn && options.mode != TrackingMode::OptOut {
                session.set_caching(false);
            }
            session.track(Box::new(TrackingRegistration::begin(
                &server.pushes.tracking,
                server.keyspace,
                &session.client,
                options,
            )));
        }
        word if is(word, "OFF") => {
            session.untrack();
            session.set_caching(false);
        }
        _ => return Err(SYNTAX),
    }
    reply.ok();
    Ok(ControlOutcome::Done)
}

/// The options of a request.
#[derive(Default)]
struct RequestedOptions<'a> {
    redirect: Option<ClientId>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> RequestedOptions<'a> {
    fn parse(server: &Server, args: Args<'a>) -> Result<Self, Refusal> {
        let mut asked = Self::default();
        let mut options = Options::from(args, 3);
        while let Some(word) = options.word() {
            match word {
                word if is(word, "REDIRECT") => {
                    let id = options.integer()?;
                    if asked.redirect.is_some() {
                        return Err(TWO_TARGETS);
                    }
                    let id = u64::try_from(id).ok();
                    let target = id.and_then(|id| server.clients.find(id)).ok_or(NO_TARGET)?;
                    asked.redirect = Some(target.id);
                }
                word if is(word, "PREFIX") => asked.prefixes.push(options.value()?),
                word if is(word, "BCAST") => asked.broadcast = true,
                word if is(word, "OPTIN") => asked.opt_in = true,
                word if is(word, "OPTOUT") => asked.opt_out = true,
                word if is(word, "NOLOOP") => asked.no_loop = true,
                _ => return Err(SYNTAX),
            }
        }
        Ok(asked)
    }

    /// What the options come to for a client that is tracked in the present way, or not at all.
    fn options(self, present: Option<&TrackingOptions>) -> Result<TrackingOptions, Refusal> {
        if !self.broadcast && !self.prefixes.is_empty() {
            return Err(PREFIX_WITHOUT_BROADCAST);
        }
        let present_mode = present.map(|present| present.mode);
        if present_mode.is_some_and(|mode| (mode == TrackingMode::Broadcast) != self.broadcast) {
            return Err(OTHER_BROADCAST);
        }
        if self.broadcast && (self.opt_in || self.opt_out) {
            return Err(CHOICE_OF_BROADCAST);
        }
        let mode = match self {
            Self { opt_in: true, opt_out: true, .. } => return Err(TWO_CHOICES),
            Self { opt_in: true, .. } if present_mode == Some(TrackingMode::OptOut) => {
                return Err(OTHER_CHOICE);
            }
            Self { opt_out: true, .. } if present_mode == Some(TrackingMode::OptIn) => {
                return Err(OTHER_CHOICE);
            }
            Self { opt_in: true, .. } => TrackingMode::OptIn,
            Self { opt_out: true, .. } => TrackingMode::OptOut,
            Self { broadcast: true, .. } => TrackingMode::Broadcast,
            _ => TrackingMode::Everything,
        };
        let prefixes = match mode {
            TrackingMode::Broadcast => all_prefixes(&self.prefixes, present)?,
            _ => Vec::new(),
        };
        Ok(TrackingOptions { mode, no_loop: self.no_loop, redirect: self.redirect, prefixes })
    }
}

/// The prefixes that a client has, and those that it names now. Where it names none it hears of
/// all keys, to which no other prefix adds any.
fn all_prefixes(
    named: &[&[u8]],
    present: Option<&TrackingOptions>,
) -> Result<Vec<Box<[u8]>>, Refusal> {
    if named.is_empty() {
        return Ok(vec![Box::default()]);
    }
    let present = present.map(|present| &*present.prefixes).unwrap_or_default();
    let mut all: Vec<Box<[u8]>> = present.to_vec();
    all.extend(named.iter().map(|&prefix| Box::from(prefix)));
    all.sort_unstable();
    // In order, a prefix that others begin with stands right before one of them.
    if all.windows(2).any(|pair| pair[1].starts_with(&pair[0])) {
        return Err(first_overlap(named, present));
    }
    Ok(all)
}

/// How prefixes that overlap are refused: by the first that does.
#[cold]
fn first_overlap(named: &[&[u8]], present: &[Box<[u8]>]) -> Refusal {
    let overlap = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    for (index, prefix) in named.iter().enumerate() {
        if let Some(other) = present.iter().find(|other| overlap(prefix, other)) {
            return overlapping(prefix, "an existing prefix", other);
        }
        if let Some(other) = named[index + 1..].iter().find(|other| overlap(prefix, other)) {
            return overlapping(prefix, "another provided prefix", other);
        }
    }
    unreachable!("two of them overlap, and what was present before does not")
}

fn overlapping(prefix: &[u8], with: &str, other: &[u8]) -> Refusal {
    let parts: [&[u8]; 7] = [
        b"ERR Prefix '",
        prefix,
        b"' overlaps with ",
        with.as_bytes(),
        b" '",
        other,
        b"'. Prefixes for a single client must not overlap.",
    ];
    Refusal::owned(parts.concat())
}

pub(super) const CACHING: ControlCommand = Command {
    spec: Spec {
        name: "CACHING",
        since: "6.0.0",
        syntax: "<YES | NO>",
        summary: "Instructs the server whether to track the keys in the next request.",
        complexity: "O(1)",
        arity: exactly(3),
        flags: OF_ITSELF.flags.and(Flags::SESSION),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: caching,
};

fn caching(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let session = context.session()?;
    let mode = session.tracked().ok_or(CACHING_WITHOUT_CHOICE)?.tracker.options.mode;
    match &args[2] {
        word if is(word, "YES") && mode != TrackingMode::OptIn => return Err(YES_WITHOUT_OPTIN),
        word if is(word, "NO") && mode != TrackingMode::OptOut => return Err(NO_WITHOUT_OPTOUT),
        word if is(word, "YES") || is(word, "NO") => session.set_caching(true),
        _ => return Err(SYNTAX),
    }
    reply.ok();
    Ok(ControlOutcome::Done)
}

pub(super) const GETREDIR: ControlCommand = Command {
    spec: Spec {
        name: "GETREDIR",
        since: "6.0.0",
        summary: "Returns the client ID to which the connection's tracking notifications are \
         redirected.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: OF_ITSELF.flags.and(Flags::IDEMPOTENT),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: getredir,
};

fn getredir(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    reply.integer(context.session()?.client.live.redirect.load(Ordering::Relaxed));
    Ok(ControlOutcome::Done)
}

pub(super) const TRACKINGINFO: ControlCommand = Command {
    spec: Spec {
        name: "TRACKINGINFO",
        since: "6.2.0",
        summary: "Returns information about server-assisted client-side caching for the \
         connection.",
        complexity: "O(1)",
        arity: exactly(2),
        flags: OF_ITSELF.flags.and(Flags::IDEMPOTENT),
        ..OF_ITSELF
    },
    subcommands: &[],
    run: trackinginfo,
};

fn trackinginfo(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let session = context.session()?;
    let options = session.tracked().map(|tracked| &tracked.tracker.options);
    let is_mode = |mode| options.is_some_and(|options| options.mode == mode);
    let flags = [
        ("off", options.is_none()),
        ("on", options.is_some()),
        ("bcast", is_mode(TrackingMode::Broadcast)),
        ("optin", is_mode(TrackingMode::OptIn)),
        ("caching-yes", is_mode(TrackingMode::OptIn) && session.has_caching()),
        ("optout", is_mode(TrackingMode::OptOut)),
        ("caching-no", is_mode(TrackingMode::OptOut) && session.has_caching()),
        ("noloop", options.is_some_and(|options| options.no_loop)),
        ("broken_redirect", session.client.has_flag(client_flags::BROKEN_REDIRECT)),
    ];
    let shown = || flags.iter().filter(|(_, is_so)| *is_so);
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(shown().count());
    shown().for_each(|(name, _)| reply.bulk(name.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(session.client.live.redirect.load(Ordering::Relaxed));
    reply.bulk(b"prefixes");
    let prefixes = options.map(|options| &*options.prefixes).unwrap_or_default();
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(ControlOutcome::Done)
}
