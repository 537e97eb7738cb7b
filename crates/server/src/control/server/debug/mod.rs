//! DEBUG: for tests and for the curious, refused unless `enable-debug-command` allows it.
//!
//! Its words are not subcommands as other containers have them, in Redis neither: COMMAND does not
//! list them, and a wrong number of arguments is answered like an unknown word.
//!
//! Invariant: what takes long or touches keys runs on a heavy-work thread, or within a unit on the
//! unit's own transaction.

mod crash;
mod digest;
#[cfg(debug_assertions)]
mod failpoints;
mod inspect;
mod populate;
mod protocol;
mod reload;
mod small_commands;

use commands::arguments::is;
use commands::declare::{Command, Flags, Group, LockPlan, Role, Spec, at_least};
use engine::runtime::background::visiting;
use keyspace::{Refusal, Tx};
use proto::{Args, Reply};

use crate::control::context::{Context, ControlCommand, ControlHandler, ControlOutcome};
use crate::control::help::{help, misused};

pub(super) const DEBUG: ControlCommand = Command {
    spec: Spec {
        name: "DEBUG",
        role: Role::Debug,
        since: "1.0.0",
        group: Group::Server,
        syntax: "<subcommand> [arg [arg ...]]",
        summary: "A container for debugging commands.",
        complexity: "Depends on subcommand.",
        arity: at_least(2),
        flags: Flags::ADMIN
            .and(Flags::NOSCRIPT)
            .and(Flags::LOADING)
            .and(Flags::STALE)
            .and(Flags::PROTECTED),
        plan: LockPlan::OfWords(&WORDS_OF_KEYS),
        ..Spec::BASE
    },
    subcommands: &[],
    run: debug,
};

/// A word of DEBUG.
struct DebugSubcommand {
    name: &'static str,
    /// The fewest and the most arguments, `DEBUG` and the word included.
    arguments: (usize, usize),
    /// Whether the word looks at keys, or makes some: within a unit such a word needs the world.
    touches_keys: bool,
    run: ControlHandler,
}

const ANY: usize = usize::MAX;

const fn word(
    name: &'static str,
    arguments: (usize, usize),
    run: ControlHandler,
) -> DebugSubcommand {
    DebugSubcommand { name, arguments, touches_keys: false, run }
}

const fn word_of_keys(
    name: &'static str,
    arguments: (usize, usize),
    run: ControlHandler,
) -> DebugSubcommand {
    DebugSubcommand { touches_keys: true, ..word(name, arguments, run) }
}

const WORDS: &[DebugSubcommand] = &[
    word("HELP", (2, 2), print_help),
    #[cfg(debug_assertions)]
    word("FAILPOINT", (2, 5), failpoints::failpoint),
    word("SEGFAULT", (2, 2), crash::segfault),
    word("PANIC", (2, 2), crash::panic),
    word("ASSERT", (2, ANY), crash::assert),
    word("SLEEP", (3, 3), small_commands::sleep),
    word("JUMP-CLOCK", (3, 3), small_commands::jump_clock),
    word("STOP-WORLD", (3, 3), small_commands::stop_world),
    word_of_keys("OBJECT", (3, 4), inspect::object),
    word_of_keys("SDSLEN", (3, 3), inspect::sdslen),
    word_of_keys("LISTPACK", (3, 3), inspect::listpack),
    word_of_keys("HTSTATS", (3, 4), inspect::table_of_database),
    word_of_keys("HTSTATS-KEY", (3, 4), inspect::table_of_key),
    word_of_keys("POPULATE", (3, 5), populate::populate),
    word_of_keys("DIGEST", (2, 2), digest::of_everything),
    word_of_keys("DIGEST-VALUE", (2, ANY), digest::of_values),
    word("PROTOCOL", (3, 3), protocol::protocol),
    word_of_keys("RELOAD", (2, ANY), reload::reload),
    word_of_keys("LOADAOF", (2, 2), reload::load_log),
    word("ERROR", (3, 3), small_commands::error),
    word("LOG", (3, 3), small_commands::log),
    word("SET-ACTIVE-EXPIRE", (3, 3), small_commands::set_active_expire),
    word("CHANGE-REPL-ID", (2, 2), small_commands::change_replication_id),
    word("CONFIG-REWRITE-FORCE-ALL", (2, 2), small_commands::rewrite_all),
    word("CLIENT-EVICTION", (2, 2), small_commands::client_eviction),
    word("STRINGMATCH-TEST", (2, 2), small_commands::test_patterns),
    word("STRUCTSIZE", (2, 2), small_commands::struct_sizes),
    word("QUICKLIST-PACKED-THRESHOLD", (3, 3), small_commands::packed_threshold),
    word("REPLYBUFFER", (4, 4), small_commands::reply_buffer),
    word("REPLICATE", (3, ANY), small_commands::nothing),
    word("DICT-RESIZING", (3, 3), small_commands::nothing),
    word("PAUSE-CRON", (3, 3), small_commands::nothing),
    word("SET-DISABLE-DENY-SCRIPTS", (3, 3), small_commands::let_scripts_call),
    word("SET-SKIP-CHECKSUM-VALIDATION", (3, 3), small_commands::nothing),
    word("AOF-FLUSH-SLEEP", (3, 3), small_commands::nothing),
    word("DROP-CLUSTER-PACKET-FILTER", (3, 3), small_commands::nothing),
    word("REPL-PAUSE", (3, 3), small_commands::nothing),
];

/// The names of those that touch keys.
const WORDS_OF_KEYS: [&str; 10] = {
    let (mut names, mut found, mut index) = ([""; 10], 0, 0);
    while index < WORDS.len() {
        if WORDS[index].touches_keys {
            names[found] = WORDS[index].name;
            found += 1;
        }
        index += 1;
    }
    assert!(found == names.len(), "there are as many as the array has room for");
    names
};

fn debug(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    let fits = |word: &&DebugSubcommand| {
        let (fewest, most) = word.arguments;
        is(&args[1], word.name) && (fewest..=most).contains(&args.len())
    };
    match WORDS.iter().find(fits) {
        Some(word) => (word.run)(context, args, reply),
        None => Err(misused("DEBUG", &args[1])),
    }
}

/// Looks at the data of the database that is asked about: within a unit on its own transaction,
/// with the world, else on a heavy-work thread, by one that visits partitions.
fn inspect_data(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
    work: impl FnOnce(&mut Tx, Args<'_>, &mut Reply<'_>) -> Result<(), Refusal> + Send + 'static,
) -> Result<ControlOutcome, Refusal> {
    if let Some(unit) = &mut context.unit {
        unit.tx.require_world()?;
        work(&mut unit.tx, args, reply)?;
        return Ok(ControlOutcome::Done);
    }
    let (keyspace, database) = (context.server.keyspace, context.session()?.database);
    Ok(ControlOutcome::offload_with_locks(move |lane, args, reply| {
        visiting(keyspace, lane, database, |tx| work(tx, args, reply))
    }))
}

fn print_help(
    _: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<ControlOutcome, Refusal> {
    help(reply, "DEBUG", HELP_LINES);
    Ok(ControlOutcome::Done)
}

const HELP_LINES: &[&str] = &[
    "ASSERT",
    "    Crash by assertion failed.",
    "CHANGE-REPL-ID",
    "    Change the replication IDs of the instance.",
    "    Dangerous: should be used only for testing the replication subsystem.",
    "CONFIG-REWRITE-FORCE-ALL",
    "    Like CONFIG REWRITE but writes all configuration options, including",
    "    keywords not listed in original configuration file or default values.",
    "DIGEST",
    "    Output a hex signature representing the current DB content.",
    "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.",
    "ERROR <string>",
    "    Return a Redis protocol error with <string> as message. Useful for clients",
    "    unit tests to simulate Redis errors.",
    "JUMP-CLOCK <milliseconds>",
    "    Go on as if the system's clock had been set forward or back by so much.",
    "LOG <message>",
    "    Write <message> to the server log.",
    "HTSTATS <dbid> [full]",
    "    Return hash table statistics of the specified Redis database.",
    "HTSTATS-KEY <key> [full]",
    "    Like HTSTATS but for the hash table stored at <key>'s value.",
    "LOADAOF",
    "    Flush the AOF buffers on disk and reload the AOF in memory.",
    "RELOAD [option ...]",
    "    Save the RDB on disk and reload it back to memory. Valid <option> values:",
    "    * MERGE: keys of the file take the place of those that are there.",
    "    * NOFLUSH: do not empty the database before loading the RDB file.",
    "    * NOSAVE: do not save first, but load the file that is there.",
    "REPLICATE <string>",
    "    Replicates the provided string to replicas, allowing data divergence.",
    "OBJECT <key>",
    "    Show low level info about `key` and associated value.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create <count> string keys named key:<num>. If <prefix> is specified then",
    "    it is used instead of the 'key' prefix. These are not propagated to",
    "    replicas.",
    "PANIC",
    "    Crash the server simulating a panic.",
    "PROTOCOL <type>",
    "    Reply with a test value of the specified type. <type> can be: string,",
    "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,",
    "    true, false.",
    "SDSLEN <key>",
    "    Show low level SDS string info representing `key` and value.",
    "SEGFAULT",
    "    Crash the server with sigsegv.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys (and hash-fields) in background ",
    "    when they are not accessed (otherwise the Redis behavior). Setting it",
    "    to 1 reenables back the default.",
    "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Sets the threshold for elements to be inserted as plain vs packed nodes",
    "    Default value is 1GB, allows values up to 4GB. Setting to 0 restores to default.",
    "SET-DISABLE-DENY-SCRIPTS <0|1>",
    "    Allow or disallow scripts to call commands that are denied to them, such as DEBUG.",
    "SET-SKIP-CHECKSUM-VALIDATION <0|1>",
    "    Enables or disables checksum checks for RDB files and RESTORE's payload.",
    "SLEEP <seconds>",
    "    Keep this client waiting for <seconds>. Decimals allowed. Others are served.",
    "STOP-WORLD <seconds>",
    "    Take the whole keyspace for <seconds>. Decimals allowed. Data commands wait.",
    "STRINGMATCH-TEST",
    "    Run a fuzz tester against the stringmatchlen() function.",
    "STRUCTSIZE",
    "    Return the size of different core structures.",
    "CLIENT-EVICTION",
    "    Show low level client eviction pools info (maxmemory-clients).",
    "PAUSE-CRON <0|1>",
    "    Stop periodic cron job processing.",
    "REPLYBUFFER PEAK-RESET-TIME <NEVER||RESET|time>",
    "    Sets the time (in milliseconds) to wait between client reply buffer peak resets.",
    "    In case NEVER is provided the last observed peak will never be reset",
    "    In case RESET is provided the peak reset time will be restored to the default value",
    "REPLYBUFFER RESIZING <0|1>",
    "    Enable or disable the reply buffer resize cron job",
    "DICT-RESIZING <0|1>",
    "    Enable or disable the main dict and expire dict resizing.",
    "LISTPACK <key>",
    "    Show low level info about the listpack encoding of <key>.",
];

#[cfg(test)]
mod tests {
    use super::WORDS_OF_KEYS;

    #[test]
    fn words_of_keys_need_the_world_within_a_unit() {
        let expected = [
            "OBJECT",
            "SDSLEN",
            "LISTPACK",
            "HTSTATS",
            "HTSTATS-KEY",
            "POPULATE",
            "DIGEST",
            "DIGEST-VALUE",
            "RELOAD",
            "LOADAOF",
        ];
        assert_eq!(WORDS_OF_KEYS, expected);
    }
}
