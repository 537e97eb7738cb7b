//! What a user's rules say of requests, wherever these run.
//!
//! Invariants: keys are found the way the lock plan finds them; a user that may do everything costs
//! one look.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use acl::{AccessRequest, Context, Database, Denial, Event, KeyAccess, Reason, Rules, User};
use commands::arguments::{database, is};
use commands::declare::{Channels, Databases, Flags};
use commands::keys::{Access, BeginSearch};
use config::settings::ACLLOG_MAX_LEN;
use keyspace::Refusal;
use proto::Args;
use smallvec::SmallVec;

use crate::clients::registry::Client;
use crate::session::Session;
use crate::session::client_info::describe;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;
use crate::table::request_keys;

/// A client that must log in first.
pub const NO_AUTH: Refusal = Refusal::error("NOAUTH Authentication required.");

/// A client whose user may not do everything, wherever its requests run.
///
/// Workers share users: what all of them wrote to with each request would go from core to core. So
/// each client keeps the rules, and looks at their number only.
pub struct AclSubject {
    pub(crate) user: Arc<User>,
    pub(crate) client: Arc<Client>,
    /// The rules, and the user's number when they were its.
    pub(crate) rules: Mutex<(u64, Arc<Rules>)>,
}

impl Session {
    /// The client's user, if there are rules to ask; `None` too for a client that has not
    /// authenticated.
    #[inline]
    pub(crate) fn acl_subject(&self, server: &Shared) -> Option<Arc<AclSubject>> {
        if self.may_do_everything() { None } else { self.look_up_acl_subject(server) }
    }

    /// As `acl_subject`, for where the session is not looked at while its user's rules may change.
    #[cold]
    pub fn acl_subject_from_now(&self, server: &Shared) -> Option<Arc<AclSubject>> {
        let user = self.effective_user(server)?;
        let rules = Mutex::new((user.version(), user.rules()));
        Some(Arc::new(AclSubject { user, client: Arc::clone(&self.client), rules }))
    }

    pub(crate) fn look_up_acl_subject(&self, server: &Shared) -> Option<Arc<AclSubject>> {
        if !self.is_authenticated() && needs_password(server) {
            return None;
        }
        let mut looked_up = self.looked_up.take().unwrap_or_default();
        let subject = looked_up.acl_subject.take().or_else(|| self.begin_acl_subject(server));
        looked_up.acl_subject.clone_from(&subject);
        self.looked_up.set(Some(looked_up));
        subject
    }

    #[cold]
    pub(crate) fn begin_acl_subject(&self, server: &Shared) -> Option<Arc<AclSubject>> {
        self.acl_subject_from_now(server).filter(|subject| !subject.user.is_unlimited())
    }
}

/// A request and where it would run.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The command.
    pub entry: &'a CommandEntry,
    /// The request, its name first.
    pub args: Args<'a>,
    /// The logical database that the session has selected.
    pub database: usize,
}

/// What was denied, in words, and for the log.
pub struct Denied {
    pub(crate) denial: Denial,
    pub(crate) text: String,
    pub(crate) noted: AclLogRecord,
}

/// What ACL LOG is told of something that was denied.
pub struct AclLogRecord {
    pub(crate) reason: Reason,
    pub(crate) context: Context,
    pub(crate) object: Box<[u8]>,
    pub(crate) user: Box<[u8]>,
    /// As CLIENT LIST shows it.
    pub(crate) client: String,
}

impl AclLogRecord {
    pub(crate) fn record(self, server: &Shared) {
        let Self { reason, context, object, user, client } = self;
        let event = Event { reason, context, object: &object, user: &user, client };
        let now = server.keyspace.clock().now_ms();
        server.access.acl_log.record(event, now, server.config.get(ACLLOG_MAX_LEN));
    }

    /// What it takes, about.
    pub(crate) fn memory(&self) -> usize {
        self.object.len() + self.user.len() + self.client.len()
    }
}

impl AclSubject {
    /// Looks at the rules of now.
    pub(crate) fn with_rules<T>(&self, look: impl FnOnce(&Rules) -> T) -> T {
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        let version = self.user.version();
        if rules.0 != version {
            *rules = (version, self.user.rules());
        }
        look(&rules.1)
    }

    /// Whether there are rules to ask at present.
    pub(crate) fn is_limited(&self) -> bool {
        !self.user.is_unlimited()
    }

    /// What keeps a request that comes from its client from running.
    pub(crate) fn refuse(
        &self,
        server: &Shared,
        context: Context,
        request: Request<'_>,
    ) -> Option<Refusal> {
        match self.denial(server, context, request) {
            Some(Denied { text, noted, .. }) => {
                noted.record(server);
                Some(Refusal::owned(format!("NOPERM {text}")))
            }
            None if context == Context::Multi => None,
            None => self.refuse_pattern(request),
        }
    }

    /// What keeps a request from beginning again that has left its session's worker: the client may
    /// be killed by now, its user gone, or its rights.
    pub(crate) fn refuse_again(&self, server: &Shared, request: Request<'_>) -> Option<Refusal> {
        if self.client.was_killed() || self.user.is_deleted() {
            // No client is there to be told.
            return Some(NO_AUTH);
        }
        if self.is_limited() { self.refuse(server, Context::TopLevel, request) } else { None }
    }

    /// Whether a request would be let through; nothing is noted.
    pub(crate) fn allows(&self, server: &Shared, request: Request<'_>) -> bool {
        self.with_rules(|rules| denial(server, rules, request)).is_none()
    }

    /// Asks the rules.
    pub fn denial(
        &self,
        server: &Shared,
        context: Context,
        request: Request<'_>,
    ) -> Option<Denied> {
        let denial = self.with_rules(|rules| denial(server, rules, request))?;
        let Request { entry, args, .. } = request;
        let name = entry.full_name.as_bytes();
        let (reason, object, text) = match denial {
            Denial::Command => {
                let user = String::from_utf8_lossy(self.user.name());
                let command = &entry.full_name;
                let text = format!("User {user} has no permissions to run the '{command}' command");
                (Reason::Command, name, text)
            }
            Denial::Key(index) => {
                (Reason::Key, &args[index], "No permissions to access a key".to_owned())
            }
            Denial::Channel(index) => {
                (Reason::Channel, &args[index], "No permissions to access a channel".to_owned())
            }
            Denial::Database(_) => {
                (Reason::Database, name, "No permissions to access database".to_owned())
            }
        };
        let noted = AclLogRecord {
            reason,
            context,
            object: object.into(),
            user: self.user.name().into(),
            client: describe(server, &self.client, server.keyspace.clock().now_ms()),
        };
        Some(Denied { denial, text, noted })
    }

    /// SORT may look into keys of any name, which is for users that may read all of them.
    pub(crate) fn refuse_pattern(&self, request: Request<'_>) -> Option<Refusal> {
        let Request { entry, args, .. } = request;
        if !entry.spec.keys.iter().any(|spec| matches!(spec.begin, BeginSearch::Undeclared)) {
            return None;
        }
        let option = commands::generic::pattern_option(args)?;
        if self.with_rules(|rules| rules.may_read_all_keys(entry.id, args)) {
            return None;
        }
        Some(Refusal::owned(format!(
            "ERR {option} option of SORT denied due to insufficient ACL permissions."
        )))
    }
}

/// What the rules deny of a request, if anything.
pub fn denial(server: &Shared, rules: &Rules, request: Request<'_>) -> Option<Denial> {
    let Request { entry, args, .. } = request;
    // A client that comes in, or leaves, needs no leave for that.
    if entry.spec.flags.has(Flags::NO_AUTH) {
        return None;
    }
    // Where the counts of a request lie it has no keys, locks none, and is refused by its handler.
    let keys = request_keys::find(entry, args).unwrap_or_default();
    let keys = keys.into_iter().map(|(index, access)| (index, needs(access)));
    let all_of = entry.spec.prefix.map(|index| (index, KeyAccess::WRITE.of_all()));
    let keys: SmallVec<[(usize, KeyAccess); 4]> = keys.chain(all_of).collect();
    let (channels, channels_are_patterns) = channels_of(entry, args);
    let channels: SmallVec<[usize; 4]> = channels.collect();
    let databases = databases(server, request);
    let (keys, channels, databases) = (&keys[..], &channels[..], &databases[..]);
    let command = entry.id;
    rules
        .check(&AccessRequest { command, args, keys, channels, channels_are_patterns, databases })
        .err()
}

/// Where the channels of a request stand, and whether they are patterns.
pub fn channels_of(entry: &CommandEntry, args: Args<'_>) -> (Range<usize>, bool) {
    match entry.spec.channels {
        Channels::None => (0..0, false),
        Channels::At(index) => (index..index + 1, false),
        Channels::From(index) => (index..args.len(), false),
        Channels::PatternsFrom(index) => (index..args.len(), true),
    }
}

/// What must be allowed of a key for what is done to it.
pub(crate) fn needs(access: Access) -> KeyAccess {
    let reads = access.has(Access::ACCESS);
    let changes = [Access::UPDATE, Access::INSERT, Access::DELETE];
    match (reads, changes.into_iter().any(|change| access.has(change))) {
        (false, false) => KeyAccess::NOTHING,
        (true, false) => KeyAccess::READ,
        (false, true) => KeyAccess::WRITE,
        (true, true) => KeyAccess::READ.and(KeyAccess::WRITE),
    }
}

/// The databases that a request touches.
pub(crate) fn databases(server: &Shared, request: Request<'_>) -> SmallVec<[(usize, Database); 2]> {
    let Request { entry, args, database: current } = request;
    let (spec, count) = (entry.spec, server.keyspace.database_count());
    // What is no database is refused by the command.
    let named = |index: usize| {
        let number = database(args.get(index)?, count).ok()?;
        Some((index, Database::Number(number)))
    };
    let here = (0, Database::Number(current));
    match spec.databases {
        Databases::Present if is_about_data(entry) => SmallVec::from_slice(&[here]),
        Databases::Present => SmallVec::new(),
        Databases::At(indexes) => indexes.iter().filter_map(|index| named(*index)).collect(),
        Databases::PresentAndAt(index) => {
            [Some(here), named(index)].into_iter().flatten().collect()
        }
        Databases::PresentAndBehind(word, from) => {
            let words = (from..args.len()).filter(|index| is(&args[*index], word));
            let others = words.filter_map(|index| named(index + 1));
            std::iter::once(here).chain(others).collect()
        }
        Databases::All => SmallVec::from_slice(&[(0, Database::All)]),
    }
}

/// Whether a command is about what the present database holds.
pub(crate) fn is_about_data(entry: &CommandEntry) -> bool {
    let spec = entry.spec;
    let has_keys = spec.keys.iter().any(|keys| !keys.access.has(Access::NOT_KEY));
    has_keys || spec.flags.has(Flags::WRITE) || spec.flags.has(Flags::READONLY)
}

/// Whether clients have to log in: the default user has a password, or is off.
#[cold]
pub fn needs_password(server: &Shared) -> bool {
    !server.access.users.default_user().is_open()
}

#[cfg(test)]
mod tests {
    use acl::Database;
    use proto::OwnedArgs;

    use super::{Request, databases};
    use crate::testing;

    #[test]
    fn rules_are_asked_for_the_databases_that_a_request_touches() {
        let engine = testing::engine();
        for (line, expected) in [
            ("GET k", "0:3"),
            ("RANDOMKEY", "0:3"),
            ("PING", ""),
            ("SELECT 5", "1:5"),
            ("SELECT x", ""),
            ("SWAPDB 1 2", "1:1 2:2"),
            ("SWAPDB 99 2", "2:2"),
            ("MOVE k 4", "0:3 2:4"),
            ("MOVE k 99", "0:3"),
            ("COPY DB 1", "0:3"),
            ("COPY a b DB 1 REPLACE db 2", "0:3 4:1 7:2"),
            ("FLUSHDB", "0:3"),
            ("FLUSHALL", "0:all"),
        ] {
            let owned: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
            let args = owned.as_args();
            let entry = engine.table.find(&args[0]).expect("it is a command");
            let touched = databases(engine, Request { entry, args, database: 3 });
            let touched = touched.iter().map(|(index, database)| match database {
                Database::Number(number) => format!("{index}:{number}"),
                Database::All => format!("{index}:all"),
            });
            assert_eq!(touched.collect::<Vec<_>>().join(" "), expected, "{line}");
        }
    }
}
