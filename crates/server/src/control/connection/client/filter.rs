//! The filters of CLIENT LIST and KILL: Redis' own, and those that Valkey added to both.
//!
//! Invariant: a client passes if it meets every filter; of a filter given twice the last counts.

use std::mem::discriminant;

use base::quote::shown;
use base::time::UnixMillis;
use commands::arguments::is;
use commands::errors::{SYNTAX, showing};
use engine::clients::client_id::ClientId;
use engine::clients::registry::{Client, Peer, Signal, client_flags};
use engine::session::client_info::{address, flags_of};
use keyspace::Refusal;
use proto::Args;

use crate::control::context::Context;
use crate::server::Server;

/// The letters that FLAGS may ask for.
const FLAG_LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIN";

const UNKNOWN_ID: Refusal = Refusal::error("ERR Invalid client ID");
const ID_NOT_POSITIVE: Refusal = Refusal::error("ERR client-id should be greater than 0");

/// Whose filters these are: some refusals differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    List,
    Kill,
}

/// The client that looks at the clients, and when.
#[derive(Clone, Copy)]
pub(super) struct Viewer {
    pub(super) server: &'static Server,
    pub(super) id: ClientId,
    pub(super) now: UnixMillis,
}

impl Viewer {
    pub(super) fn of(context: &mut Context<'_>) -> Result<Self, Refusal> {
        let (server, id) = (context.server, context.session()?.client.id);
        Ok(Self { server, id, now: server.keyspace.clock().now_ms() })
    }
}

/// What clients must meet.
pub(super) struct ClientFilter<'a> {
    /// Each with whether it must hold, or must not.
    conditions: Vec<(bool, Condition<'a>)>,
    skip_me: bool,
}

enum Condition<'a> {
    /// In rising order.
    Ids(Vec<i64>),
    Kind(ClientType),
    User(&'a [u8]),
    Address(&'a [u8]),
    LocalAddress(&'a [u8]),
    Ip(&'a [u8]),
    /// Seconds.
    Age(i64),
    Idle(i64),
    Flags(&'a [u8]),
    Name(&'a [u8]),
    Library(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Database(u32),
    /// Only `r` exists.
    Capabilities(&'a [u8]),
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClientType {
    Normal,
    Primary,
    Replica,
    PubSub,
}

impl<'a> ClientFilter<'a> {
    /// Reads all arguments from index 2 on.
    pub(super) fn parse(
        server: &Server,
        args: Args<'a>,
        purpose: Purpose,
    ) -> Result<Self, Refusal> {
        let mut filter = Self { conditions: Vec::new(), skip_me: purpose == Purpose::Kill };
        let mut next = 2;
        while let Some(word) = args.get(next) {
            let value = args.get(next + 1).ok_or(SYNTAX)?;
            let (wanted, name) = positive(word);
            next += 2;
            let condition = if is(word, "SKIPME") {
                filter.skip_me = yes_or_no(value)?;
                continue;
            } else if is(name, "ID") {
                let (ids, end) = if wanted {
                    ids(args, next - 1, purpose)?
                } else {
                    excluded_ids(args, next - 1)?
                };
                next = end;
                let mut ids = ids;
                ids.sort_unstable();
                Condition::Ids(ids)
            } else {
                Condition::parse(server, word, name, value)?
            };
            let kind = (wanted, discriminant(&condition));
            filter.conditions.retain(|(wanted, known)| (*wanted, discriminant(known)) != kind);
            filter.conditions.push((wanted, condition));
        }
        Ok(filter)
    }

    /// Whether a client passes. One that is about to die is gone already.
    pub(super) fn admits(&self, viewer: Viewer, client: &Client) -> bool {
        if client.is_asked(Signal::Kill) || self.skip_me && client.id == viewer.id {
            return false;
        }
        self.conditions.iter().all(|(wanted, condition)| condition.holds(viewer, client) == *wanted)
    }
}

impl<'a> Condition<'a> {
    /// `name` is `word` without a leading `NOT-`.
    fn parse(server: &Server, word: &[u8], name: &[u8], value: &'a [u8]) -> Result<Self, Refusal> {
        Ok(match () {
            () if is(name, "TYPE") => Self::Kind(ClientType::parse(value)?),
            () if is(name, "USER") && server.access.users.named(value).is_some() => {
                Self::User(value)
            }
            () if is(name, "USER") => return Err(complain("No such user", value)),
            () if is(name, "ADDR") => Self::Address(value),
            () if is(name, "LADDR") => Self::LocalAddress(value),
            () if is(name, "IP") => Self::Ip(value),
            () if is(name, "NAME") => Self::Name(value),
            () if is(name, "LIB-NAME") => Self::Library(value),
            () if is(name, "LIB-VER") => Self::LibraryVersion(value),
            () if is(word, "MAXAGE") => Self::Age(seconds("maxage", value)?),
            () if is(word, "IDLE") => Self::Idle(seconds("idle", value)?),
            () if is(name, "DB") => Self::Database(database(server, word, value)?),
            () if is(name, "FLAGS") => {
                if !value.iter().all(|letter| FLAG_LETTERS.contains(letter)) {
                    return Err(unknown_in_filter("flags", word, value));
                }
                Self::Flags(value)
            }
            () if is(name, "CAPA") => {
                if !value.iter().all(|letter| *letter == b'r') {
                    return Err(unknown_in_filter("capa", word, value));
                }
                Self::Capabilities(value)
            }
            () => return Err(SYNTAX),
        })
    }

    fn holds(&self, viewer: Viewer, client: &Client) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let Viewer { server, now, .. } = viewer;
        match self {
            Self::Ids(ids) => ids.binary_search(&(client.id as i64)).is_ok(),
            Self::Kind(kind) => *kind == ClientType::of(client),
            Self::User(name) => client.is_of_user(name),
            Self::Address(wanted) => address(server, client.peer).as_bytes() == *wanted,
            Self::LocalAddress(wanted) => address(server, client.local).as_bytes() == *wanted,
            Self::Ip(wanted) => match client.peer {
                Peer::Tcp(peer) => peer.ip.to_string().as_bytes() == *wanted,
                Peer::Unix => false,
            },
            Self::Age(least) => (now - client.created) / 1000 >= *least,
            Self::Idle(least) => (now - client.live.last_active.load(Relaxed)) / 1000 >= *least,
            Self::Flags(letters) => {
                let flags = flags_of(client);
                letters.iter().all(|letter| flags.as_bytes().contains(letter))
            }
            Self::Name(name) => is_called(&client.names().name, name),
            Self::Library(name) => is_called(&client.names().library, name),
            Self::LibraryVersion(version) => is_called(&client.names().library_version, version),
            Self::Database(database) => client.live.database.load(Relaxed) == *database,
            Self::Capabilities(letters) => {
                letters.is_empty() || client.has_flag(client_flags::REDIRECT)
            }
        }
    }
}

impl ClientType {
    /// In Redis, a client in MONITOR is no replica.
    fn of(client: &Client) -> Self {
        match () {
            () if client.has_flag(client_flags::REPLICA) => Self::Replica,
            () if client.has_flag(client_flags::PRIMARY) => Self::Primary,
            () if client.has_flag(client_flags::SUBSCRIBER) => Self::PubSub,
            () => Self::Normal,
        }
    }

    fn parse(word: &[u8]) -> Result<Self, Refusal> {
        Ok(match word {
            word if is(word, "NORMAL") => Self::Normal,
            word if is(word, "MASTER") || is(word, "PRIMARY") => Self::Primary,
            word if is(word, "REPLICA") || is(word, "SLAVE") => Self::Replica,
            word if is(word, "PUBSUB") => Self::PubSub,
            word => return Err(complain("Unknown client type", word)),
        })
    }
}

/// No client is called nothing.
fn is_called(own: &[u8], name: &[u8]) -> bool {
    !own.is_empty() && own == name
}

/// Whether a filter must hold, and its name without a leading `NOT-`.
fn positive(word: &[u8]) -> (bool, &[u8]) {
    match word.split_at_checked(4) {
        Some((not, name)) if is(not, "NOT-") => (false, name),
        _ => (true, word),
    }
}

/// The ids from an index on, and where they end: at the name of the next filter.
fn ids(args: Args<'_>, first: usize, purpose: Purpose) -> Result<(Vec<i64>, usize), Refusal> {
    let mut ids = Vec::new();
    let mut next = first;
    while let Some(word) = args.get(next) {
        match base::number::parse_i64(word) {
            Some(id) if id <= 0 && purpose == Purpose::Kill => return Err(ID_NOT_POSITIVE),
            Some(id) => ids.push(id),
            None if ids.is_empty() && purpose == Purpose::Kill => return Err(ID_NOT_POSITIVE),
            None if ids.is_empty() => return Err(UNKNOWN_ID),
            // A word without a value cannot be a filter, so it was meant as an id.
            None if args.len() == next + 1 && purpose == Purpose::List => return Err(UNKNOWN_ID),
            None => break,
        }
        next += 1;
    }
    Ok((ids, next))
}

/// As `ids`, for NOT-ID, which is Valkey's alone and refuses in its words.
fn excluded_ids(args: Args<'_>, first: usize) -> Result<(Vec<i64>, usize), Refusal> {
    if args.get(first).is_some_and(|word| base::number::parse_i64(word).is_none()) {
        return Err(SYNTAX);
    }
    ids(args, first, Purpose::Kill)
}

fn yes_or_no(word: &[u8]) -> Result<bool, Refusal> {
    match word {
        yes if is(yes, "YES") => Ok(true),
        no if is(no, "NO") => Ok(false),
        _ => Err(SYNTAX),
    }
}

/// A time span; the errors speak of `what`.
fn seconds(what: &str, value: &[u8]) -> Result<i64, Refusal> {
    let Some(seconds) = base::number::parse_i64(value) else {
        return Err(Refusal::owned(format!("ERR {what} is not an integer or out of range")));
    };
    if seconds <= 0 {
        return Err(Refusal::owned(format!("ERR {what} should be greater than 0")));
    }
    Ok(seconds)
}

/// A database; the errors call it `NOT-DB` where the filter's `word` does.
fn database(server: &Server, word: &[u8], value: &[u8]) -> Result<u32, Refusal> {
    let count = server.keyspace.database_count();
    let name = if positive(word).0 { "DB" } else { "NOT-DB" };
    let Some(index) = base::number::parse_i64(value) else {
        return Err(Refusal::owned(format!("ERR {name} is not an integer or out of range")));
    };
    let index = u32::try_from(index).ok().filter(|&index| (index as usize) < count);
    index.ok_or_else(|| {
        Refusal::owned(format!(
            "ERR {name} number should be between 0 and {}",
            count.saturating_sub(1)
        ))
    })
}

fn complain(what: &str, value: &[u8]) -> Refusal {
    showing(&format!("ERR {what} '"), shown(value, usize::MAX), "'")
}

fn unknown_in_filter(what: &str, word: &[u8], value: &[u8]) -> Refusal {
    let filter = match positive(word) {
        (true, _) => "provided".to_owned(),
        (false, name) => format!("NOT-{}", String::from_utf8_lossy(name).to_ascii_uppercase()),
    };
    let before = format!("ERR Unknown {what} found in the {filter} filter: ");
    showing(&before, shown(value, usize::MAX), "")
}
