//! What is run in each way, and what there is before. Every act writes, reads or is refused on key
//! `t`, which all who look on watch, track and wait for.
//!
//! Invariant: an act says nothing of how it comes to run; a form of it is a command, a wait that
//! another client ends, or what a client of memcached asks.

/// What is run.
pub(super) struct Act {
    /// What the act is for.
    pub(super) name: &'static str,
    /// What there is before.
    pub(super) scene: &'static [&'static str],
    /// What is over, behind `SOON` milliseconds, when the act is run.
    pub(super) over: &'static [&'static str],
    /// Another client waits with this.
    pub(super) waits: &'static str,
    /// What has changed for all clients right before.
    pub(super) gate: &'static [&'static str],
    /// Whether the client that has it run keeps copies of what it reads.
    pub(super) is_tracked: bool,
    pub(super) form: Form,
}

/// The words of an act.
#[derive(Clone, Copy, Debug)]
pub(super) enum Form {
    /// A command that is run for whoever has it run.
    Command(&'static str),
    /// A command that waits, and what is sent to end its wait.
    Wait(&'static str, &'static str),
    /// A command that is too much for a worker.
    Heavy(&'static str),
    /// A request of memcached, its answer, and the command that stands for it.
    Foreign(&'static str, &'static str, &'static str),
}

use Form::{Command, Foreign, Heavy, Wait};

const fn act(name: &'static str, scene: &'static [&'static str], form: Form) -> Act {
    Act { name, scene, over: &[], waits: "", gate: &[], is_tracked: false, form }
}

impl Act {
    /// The command, or the one that stands for it.
    pub(super) fn line(&self) -> &'static str {
        match self.form {
            Command(line) | Wait(line, _) | Heavy(line) | Foreign(_, _, line) => line,
        }
    }

    /// Whether the server becomes a replica.
    pub(super) fn changes_role(&self) -> bool {
        let is_change = |line: &str| line.starts_with("REPLICAOF");
        self.gate.iter().any(|line| is_change(line))
            || matches!(self.form, Wait(_, wake) if is_change(wake))
    }

    const fn over(self, over: &'static [&'static str]) -> Self {
        Self { over, ..self }
    }

    const fn waited_for(self, waits: &'static str) -> Self {
        Self { waits, ..self }
    }

    const fn tracked(self) -> Self {
        Self { is_tracked: true, ..self }
    }

    const fn behind(self, gate: &'static [&'static str]) -> Self {
        Self { gate, ..self }
    }
}

const DENIED: &[&str] = &["ACL SETUSER default -incr -incrby -blmove -bitop -set"];
const DENIED_KEY: &[&str] = &["ACL SETUSER default resetkeys ~other ~q ~big ~pad*"];
const NO_MEMORY: &[&str] = &["CONFIG SET maxmemory 1"];
const NO_DISK: &[&str] = &["CONFIG SET stop-writes-on-bgsave-error yes"];
const AT_REPLICA: &[&str] = &["REPLICAOF 127.0.0.1 1"];
const LFU: &str = "CONFIG SET maxmemory-policy allkeys-lfu";
/// Ten megabytes.
const BIG: &str = "SETBIT big 80000000 1";
const BIG_TEXTS: &str =
    "EVAL \"for i = 1, 30000 do redis.call('RPUSH', KEYS[1], 'x' .. i) end\" 1 big";
const BIG_HASH: &str =
    "EVAL \"for i = 1, 30000 do redis.call('HSET', KEYS[1], 'f' .. i, i) end\" 1 t";

const MISCONF: &str = "SERVER_ERROR MISCONF Redis is configured to save RDB snapshots, but it's \
    currently unable to persist to disk. Commands that may modify the data set are disabled, \
    because this instance is configured to report errors during writes if RDB snapshotting fails \
    (stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB \
    error.";

pub(super) const ACTS: &[Act] = &[
    // Commands.
    act("a number grows", &["SET t 1"], Command("INCR t")),
    act("a key is new", &[], Command("SET t v EX 1000")),
    act("a push is waited for", &[], Command("RPUSH t a b")).waited_for("BLPOP t 0"),
    act("an entry is waited for", &["XADD t 1-1 a b"], Command("XADD t 2-1 a b"))
        .waited_for("XREAD BLOCK 0 STREAMS t $"),
    act("a member is waited for", &[], Command("ZADD t 2 b 1 a")).waited_for("BZPOPMIN t 0"),
    act("who is served serves", &["RPUSH src a"], Command("LMOVE src t LEFT LEFT"))
        .waited_for("BLMOVE t d LEFT LEFT 0"),
    act("a stream ends", &["XADD t 1-1 a b", "XGROUP CREATE t g $"], Command("DEL t"))
        .waited_for("XREADGROUP GROUP g c BLOCK 0 STREAMS t >"),
    act("a key is removed", &["SET t v"], Command("UNLINK t")),
    act("the last element goes", &["RPUSH t a"], Command("LPOP t")),
    act("a key expires at once", &["SET t v"], Command("EXPIRE t 0")),
    act("a chance", &["SADD t a"], Command("SPOP t")),
    act("a fraction", &["HSET t f 0.5"], Command("HINCRBYFLOAT t f 0.25")),
    act("a name changes", &["SET s v", "SET t w"], Command("RENAME s t")),
    act("a sum is stored", &["SADD src 1 2", "SADD d 3"], Command("SUNIONSTORE t src d")),
    act("nothing changes", &["SADD t a"], Command("SADD t a")),
    act("a wrong type", &["SET t x"], Command("LPUSH t a")),
    act("a key is over", &[], Command("APPEND t x")).over(&["SET t v PX SOON"]),
    act("a key that is read is over", &[], Command("GET t")).over(&["SET t v PX SOON"]),
    act("a field is over", &["HSET t f v g w"], Command("HSETNX t f x"))
        .over(&["HPEXPIRE t SOON FIELDS 1 f"]),
    act("a counter is over", &["HSET t f 5 g w"], Command("HINCRBY t f 1"))
        .over(&["HPEXPIRE t SOON FIELDS 1 f"]),
    act("a field that is read is over", &["HSET t f v g w"], Command("HGETALL t"))
        .over(&["HPEXPIRE t SOON FIELDS 1 f"]),
    act("the last field is over", &["HSET t f v"], Command("HDEL t f"))
        .over(&["HPEXPIRE t SOON FIELDS 1 f"]),
    act("a field goes from a hash that is over", &["HSET t f v"], Command("HGETDEL t FIELDS 1 f"))
        .over(&["HPEXPIRE t SOON FIELDS 1 f"]),
    act("keys are read", &["SET t v"], Command("MGET t none t")),
    act("an idle key is read", &["IDLE t 1000"], Command("STRLEN t")),
    act("an idle key is written", &["IDLE t 1000"], Command("APPEND t x")),
    act("a rare key is read", &[LFU, "FREQ t 5"], Command("STRLEN t")),
    act("a command is denied", &["SET t 1"], Command("INCR t")).behind(DENIED),
    act("a key is denied", &["SET t 1"], Command("INCR t")).behind(DENIED_KEY),
    act("no memory", &["SET t 1"], Command("APPEND t 2")).behind(NO_MEMORY),
    act("no memory is asked for", &["SET t 1"], Command("DEL t")).behind(NO_MEMORY),
    act("no disk", &["SET t 1"], Command("INCR t")).behind(NO_DISK),
    act("at a replica", &["SET t 1"], Command("INCR t")).behind(AT_REPLICA),
    act("a word too much", &["SET t 1"], Command("INCR t t")),
    act("no command", &["SET t 1"], Command("NOSUCH t")),
    act("a copy is kept", &["SET t v"], Command("GET t")).tracked(),
    act("a copy is kept of what is not there", &[], Command("MGET t none")).tracked(),
    act("what is written is no copy", &["SET t v"], Command("APPEND t x")).tracked(),
    // Waits.
    act("a pop waits", &[], Wait("BLPOP t 0", "RPUSH t v w")),
    act("a pop of many waits", &[], Wait("BLMPOP 0 1 t LEFT COUNT 2", "RPUSH t v w x")),
    act("a pop of very many keys waits", &[], Wait("BLPOP @2000 t 0", "RPUSH t v w")),
    act("a pop waits for a member", &[], Wait("BZPOPMIN t 0", "ZADD t 1 a 2 b")),
    act("a pop waits for members", &[], Wait("BZMPOP 0 1 t MAX COUNT 2", "ZADD t 1 a 2 b")),
    act("a move waits", &[], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v")),
    act("an old move waits", &[], Wait("BRPOPLPUSH q t 0", "RPUSH q v")),
    act("a waiter serves a waiter", &[], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v"))
        .waited_for("BLPOP t 0"),
    act(
        "a group waits",
        &["XADD t 1-1 a b", "XGROUP CREATE t g $"],
        Wait("XREADGROUP GROUP g c BLOCK 0 STREAMS t >", "XADD t 2-1 a b"),
    ),
    act("a reader waits", &["XADD t 1-1 a b"], Wait("XREAD BLOCK 0 STREAMS t $", "XADD t 2-1 a b")),
    act(
        "a reader keeps a copy",
        &["XADD t 1-1 a b"],
        Wait("XREAD BLOCK 0 STREAMS t $", "XADD t 2-1 a b"),
    )
    .tracked(),
    act("a move is the change of who waited", &[], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v"))
        .tracked(),
    act("a move meets a wrong type", &["SET t x"], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v")),
    act("a move meets a key that is over", &[], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v"))
        .over(&["RPUSH t a", "PEXPIRE t SOON"]),
    act(
        "a move meets an idle key",
        &["RPUSH t a", "IDLE t 1000"],
        Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v"),
    ),
    act("a move is denied", &[], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v")).behind(DENIED),
    act("a move's key is denied", &[], Wait("BLMOVE q t LEFT RIGHT 0", "RPUSH q v"))
        .behind(DENIED_KEY),
    act(
        "a move finds no memory",
        &["RPUSH row v"],
        Wait("BLMOVE q t LEFT RIGHT 0", "RENAME row q"),
    )
    .behind(NO_MEMORY),
    act("a pop needs no memory", &["RPUSH row v"], Wait("BLPOP t 0", "RENAME row t"))
        .behind(NO_MEMORY),
    act("a role changes", &[], Wait("BLMOVE q t LEFT RIGHT 0", "REPLICAOF 127.0.0.1 1")),
    // What leaves its worker.
    act("bits are stored", &[BIG], Heavy("BITOP NOT t big")),
    act("bits are stored over what is over", &[BIG], Heavy("BITOP NOT t big"))
        .over(&["SET t v PX SOON"]),
    act("bits are counted", &[BIG, "SET t x"], Heavy("BITOP AND d big t none")),
    act("an idle text is read", &["SETBIT t 80000000 1", "IDLE t 1000"], Heavy("BITCOUNT t")),
    act("a rare text is read", &[LFU, "SETBIT t 80000000 1", "FREQ t 5"], Heavy("BITCOUNT t")),
    act("a rare text is stored", &[LFU, "SETBIT t 80000000 1", "FREQ t 5"], Heavy("BITOP NOT d t")),
    act("a copy of a long text is kept", &["SETBIT t 80000000 1"], Heavy("BITCOUNT t")).tracked(),
    act("a sorted list is waited for", &[BIG_TEXTS], Heavy("SORT big BY nosort STORE t"))
        .waited_for("BLPOP t 0"),
    act("texts are no numbers", &[BIG_TEXTS, "SET t x"], Heavy("SORT big STORE t")),
    act("a field of many is over", &[BIG_HASH], Heavy("HDEL t @5000"))
        .over(&["HPEXPIRE t SOON FIELDS 1 f7"]),
    act("fields are removed from no hash", &["SET t x"], Heavy("HDEL t @5000")),
    act("many keys are removed", &["SET t v", "MSET f1 1 f2 2"], Heavy("DEL t @5000")),
    act("bits are denied", &[BIG], Heavy("BITOP NOT t big")).behind(DENIED),
    act("a key of bits is denied", &[BIG], Heavy("BITOP NOT t big")).behind(DENIED_KEY),
    act("bits find no memory", &[BIG], Heavy("BITOP NOT t big")).behind(NO_MEMORY),
    act("bits find no disk", &[BIG], Heavy("BITOP NOT t big")).behind(NO_DISK),
    act("bits at a replica", &[BIG], Heavy("BITOP NOT t big")).behind(AT_REPLICA),
    // Requests of memcached.
    act("an item is set", &["SET t 1"], Foreign("set t 0 0 1\r\nx", "STORED", "SET t x")),
    act("an item is removed", &["SET t 1"], Foreign("delete t", "DELETED", "DEL t")),
    act(
        "a stream is removed",
        &["XADD t 1-1 a b", "XGROUP CREATE t g $"],
        Foreign("delete t", "DELETED", "DEL t"),
    )
    .waited_for("XREADGROUP GROUP g c BLOCK 0 STREAMS t >"),
    act("an item grows", &["SET t 1"], Foreign("incr t 5", "6", "INCRBY t 5")),
    act(
        "an item gets longer",
        &["SET t 1"],
        Foreign("append t 0 0 1\r\n2", "STORED", "APPEND t 2"),
    ),
    act(
        "an item gets a time",
        &["SET t 1"],
        Foreign("touch t 2000000000", "TOUCHED", "PEXPIREAT t 2000000000000"),
    ),
    act(
        "an item that is read gets a time",
        &["SET t 1"],
        Foreign("gat 2000000000 t", "VALUE t 0 1\r\n1\r\nEND", "GETEX t PXAT 2000000000000"),
    ),
    act("an item is read", &["SET t 1"], Foreign("get t", "VALUE t 0 1\r\n1\r\nEND", "GET t")),
    act("no item is there", &[], Foreign("get t", "END", "GET t")),
    act("an item is set, briefly", &["SET t 1"], Foreign("ms t 1\r\nx", "HD", "SET t x")),
    act("an item is read, briefly", &["SET t 1"], Foreign("mg t v", "VA 1\r\n1", "GET t")),
    act("all items are removed", &["SET t 1"], Foreign("flush_all", "OK", "FLUSHDB")),
    act(
        "an item is no number",
        &["SET t x"],
        Foreign(
            "incr t 1",
            "CLIENT_ERROR cannot increment or decrement non-numeric value",
            "INCRBY t 1",
        ),
    ),
    act("an item is over", &[], Foreign("set t 0 0 1\r\nx", "STORED", "SET t x"))
        .over(&["SET t v PX SOON"]),
    act("an item that is read is over", &[], Foreign("get t", "END", "GET t"))
        .over(&["SET t v PX SOON"]),
    act(
        "an idle item is read",
        &["IDLE t 1000"],
        Foreign("get t", "VALUE t 0 4\r\nidle\r\nEND", "GET t"),
    ),
    act(
        "a rare item is read",
        &[LFU, "FREQ t 5"],
        Foreign("get t", "VALUE t 0 4\r\nidle\r\nEND", "GET t"),
    ),
    act(
        "a request is denied",
        &["SET t 1"],
        Foreign(
            "set t 0 0 1\r\nx",
            "CLIENT_ERROR User default has no permissions to run the 'set' command",
            "SET t x",
        ),
    )
    .behind(DENIED),
    act(
        "an item is denied",
        &["SET t 1"],
        Foreign("set t 0 0 1\r\nx", "CLIENT_ERROR No permissions to access a key", "SET t x"),
    )
    .behind(DENIED_KEY),
    act(
        "an item finds no memory",
        &["SET t 1"],
        Foreign("set t 0 0 1\r\nx", "SERVER_ERROR out of memory storing object", "SET t x"),
    )
    .behind(NO_MEMORY),
    act("an item finds no disk", &["SET t 1"], Foreign("set t 0 0 1\r\nx", MISCONF, "SET t x"))
        .behind(NO_DISK),
    act(
        "an item at a replica",
        &["SET t 1"],
        Foreign(
            "set t 0 0 1\r\nx",
            "SERVER_ERROR READONLY You can't write against a read only replica.",
            "SET t x",
        ),
    )
    .behind(AT_REPLICA),
];
