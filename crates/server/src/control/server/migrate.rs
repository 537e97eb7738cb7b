//! MIGRATE: keys go to another server.
//!
//! Invariant: what is asked for is known before anything is done; the command is refused within
//! transactions and scripts, which would hold their locks while the target is waited for.

use std::time::Duration;

use base::number::parse_i64;
use commands::arguments::{integer, is};
use commands::declare::{Command, Flags, Group, Role, Secrets, Spec, at_least};
use commands::errors::SYNTAX;
use commands::keys::{Access, BeginSearch, FindKeys, KeySpec, KeyTail, KeyWord};
use config::settings::TLS_CLUSTER;
use engine::session::{Suspension, tx_options};
use keyspace::Refusal;
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlOutcome};
use crate::migration::{Credentials, MigrateRequest, MigrateTarget};

const ONE_KEY: Refusal = Refusal::error(
    "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
);

/// How long a step may take where nothing sensible is said, in milliseconds.
const DEFAULT_TIMEOUT_MS: u64 = 1000;

/// Where the options begin.
const OPTIONS: usize = 6;

const KEYS: KeyTail = KeyTail {
    word: KeyWord {
        word: "KEYS",
        told_from: -2,
        from: OPTIONS,
        others: &[("AUTH", 1), ("AUTH2", 2)],
    },
    single: 3,
};

const ACCESS: Access = Access::RW.and(Access::ACCESS).and(Access::DELETE);

pub(super) const MIGRATE: ControlCommand = Command {
    spec: Spec {
        name: "MIGRATE",
        role: Role::Migrate,
        since: "2.6.0",
        group: Group::Generic,
        syntax: "host port <key | \"\"> destination-db timeout [COPY] [REPLACE] [AUTH password | \
            AUTH2 username password] [KEYS key [key ...]]",
        summary: "Atomically transfers a key from one Redis instance to another.",
        complexity: "This command actually executes a DUMP+DEL in the source instance, and a \
            RESTORE in the target instance. See the pages of these commands for time complexity. \
            Also an O(N) data transfer between the two instances is performed.",
        arity: at_least(6),
        flags: Flags::WRITE.and(Flags::NOT_IN_UNIT),
        keys: &[
            KeySpec {
                begin: BeginSearch::InsteadOf(KEYS),
                find: FindKeys::Range { last: 0, step: 1, limit: 0 },
                access: ACCESS,
                notes: "",
            },
            KeySpec {
                begin: BeginSearch::Tail(KEYS),
                find: FindKeys::Range { last: -1, step: 1, limit: 0 },
                access: ACCESS.and(Access::INCOMPLETE),
                notes: "",
            },
        ],
        categories: &["@dangerous"],
        tips: &["nondeterministic_output"],
        history: &[
            ("3.0.0", "Added the `COPY` and `REPLACE` options."),
            ("3.0.6", "Added the `KEYS` option."),
            ("4.0.7", "Added the `AUTH` option."),
            ("6.0.0", "Added the `AUTH2` option."),
        ],
        secrets: Secrets::OptionValues,
        ..Spec::BASE
    },
    subcommands: &[],
    run: migrate,
};

/// What the options say.
#[derive(Default)]
struct MigrateOptions<'a> {
    copies: bool,
    replaces: bool,
    user: Option<&'a [u8]>,
    password: Option<&'a [u8]>,
}

impl<'a> MigrateOptions<'a> {
    fn parse(args: Args<'a>) -> Result<Self, Refusal> {
        let mut options = Self::default();
        let mut index = OPTIONS;
        while let Some(word) = args.get(index) {
            if is(word, "COPY") {
                options.copies = true;
            } else if is(word, "REPLACE") {
                options.replaces = true;
            } else if is(word, "AUTH") {
                options.password = Some(args.get(index + 1).ok_or(SYNTAX)?);
                index += 1;
            } else if is(word, "AUTH2") {
                options.user = Some(args.get(index + 1).ok_or(SYNTAX)?);
                options.password = Some(args.get(index + 2).ok_or(SYNTAX)?);
                index += 2;
            } else if is(word, "KEYS") {
                // What follows is not looked at.
                return if args[KEYS.single].is_empty() { Ok(options) } else { Err(ONE_KEY) };
            } else {
                return Err(SYNTAX);
            }
            index += 1;
        }
        Ok(options)
    }

    fn credentials(&self) -> Option<Credentials> {
        let password = self.password?.into();
        Some(Credentials { user: self.user.map(Box::from), password })
    }
}

fn migrate(
    context: &mut Context<'_>,
    args: Args<'_>,
    _: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let options = MigrateOptions::parse(args)?;
    let timeout = integer(args, 5)?;
    let database = integer(args, 4)?;
    let keys = match KEYS.word.find(args) {
        Some(option) => option + 1..args.len(),
        None => KEYS.single..KEYS.single + 1,
    };
    let timeout_ms = u64::try_from(timeout).ok().filter(|&millis| millis > 0);
    // A port that is none is one that nobody listens at.
    let port = parse_i64(&args[2]).and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
    let host = String::from_utf8_lossy(&args[1]).into_owned();
    let (server, entry, lane) = (context.server, context.entry, context.lane()?);
    let session = context.session()?;
    let order = MigrateRequest {
        entry,
        args: args.into(),
        keys,
        target: MigrateTarget {
            host,
            port,
            is_encrypted: server.config.get(TLS_CLUSTER),
            credentials: options.credentials(),
        },
        database,
        patience: Duration::from_millis(timeout_ms.unwrap_or(DEFAULT_TIMEOUT_MS)),
        copies: options.copies,
        replaces: options.replaces,
        options: tx_options(lane, session),
        subject: session.acl_subject_from_now(server),
        resp: session.resp,
    };
    let result = server.migrations.begin(server, Box::new(order))?;
    Ok(ControlOutcome::Wait(Suspension::Offload(result)))
}
