//! Cells that cannot exist, acts that a way has none of, and differences that are on purpose, each
//! with its reason.
//!
//! Invariant: each row is needed: what is seen of an absent cell fails, and so does a difference
//! that is not met.

use super::seen::Effect;
use super::ways::Way;

/// Effects that nothing of a way can leave.
pub(super) struct Absent {
    pub(super) way: Way,
    pub(super) effects: &'static [Effect],
    pub(super) why: &'static str,
}

pub(super) const ABSENT: &[Absent] = &[
    Absent {
        way: Way::Replay,
        effects: &[
            Effect::Reply,
            Effect::Events,
            Effect::Told,
            Effect::ToldByPrefix,
            Effect::Remembered,
            Effect::Watch,
            Effect::Waiter,
            Effect::Monitored,
        ],
        why: "no client is connected while the log is run at a start",
    },
    Absent {
        way: Way::Replay,
        effects: &[Effect::Calls, Effect::Errors, Effect::Slow, Effect::Denials],
        why: "what is run at a start is no work of clients, and counts as none",
    },
    Absent {
        way: Way::Stream,
        effects: &[Effect::Errors],
        why: "what fails is in no stream; of a copy that differs replication_errors.rs tells",
    },
    Absent { way: Way::Stream, effects: &[Effect::Denials], why: "a stream has no user" },
    Absent { way: Way::Stream, effects: &[Effect::Remembered], why: "a stream has no reader" },
    Absent {
        way: Way::Batched,
        effects: &[Effect::Remembered],
        why: "requests of a client that keeps copies share no locks",
    },
    Absent {
        way: Way::BatchedScript,
        effects: &[Effect::Remembered],
        why: "scripts of a client that keeps copies share no locks",
    },
    Absent {
        way: Way::Console,
        effects: &[Effect::Remembered],
        why: "the console keeps no copies, and its session tracks nothing",
    },
    Absent {
        way: Way::Memcached,
        effects: &[Effect::Remembered],
        why: "no protocol of memcached can tell a client of a change",
    },
];

/// Acts that a way does not run.
pub(super) struct LeftOut {
    pub(super) way: Way,
    pub(super) acts: &'static [&'static str],
    pub(super) why: &'static str,
}

pub(super) const LEFT_OUT: &[LeftOut] = &[
    LeftOut {
        way: Way::Parked,
        acts: &["at a replica"],
        why: "a change of role waits for who holds the lock",
    },
    LeftOut {
        way: Way::ServedByScript,
        acts: &["a role changes"],
        why: "no script changes the role",
    },
    LeftOut {
        way: Way::Replay,
        acts: &[
            "a command is denied",
            "a key is denied",
            "no memory",
            "no memory is asked for",
            "no disk",
            "at a replica",
        ],
        why: "what is asked for is what the log has, whatever may be done now",
    },
    LeftOut {
        way: Way::Replay,
        acts: &["a key that is read is over", "a field that is read is over"],
        why: "what only reads is in no log, and what is over is removed behind a start",
    },
    LeftOut {
        way: Way::Stream,
        acts: &["at a replica"],
        why: "what is applied comes from the only primary that the replica has",
    },
];

/// What is otherwise than in Redis, on purpose.
pub(super) struct Different {
    /// Of all ways, if there are none.
    pub(super) ways: &'static [Way],
    pub(super) acts: &'static [&'static str],
    pub(super) effects: &'static [Effect],
    pub(super) why: &'static str,
}

pub(super) const DIFFERENT: &[Different] = &[
    Different {
        ways: &[],
        acts: &["the last field is over", "a field of many is over"],
        effects: &[Effect::Reply, Effect::Events, Effect::Lookups, Effect::Changes],
        why: "HDEL removes no field that is over: each write removes them before (published.md)",
    },
    Different {
        ways: &[Way::Console],
        acts: &["an idle key is read", "an idle key is written", "a rare key is read"],
        effects: &[Effect::Touch],
        why: "what the console runs leaves keys as unused as they were",
    },
    Different {
        ways: &[Way::Served, Way::ServedByExec, Way::ServedAgain],
        acts: &["a role changes"],
        effects: &[Effect::Calls],
        why: "what ends another's wait by an error has not failed itself, as it has in Redis",
    },
    Different {
        ways: &[Way::Memcached],
        acts: &["an item gets a time"],
        effects: &[Effect::Lookups],
        why: "an item that is touched counts as read, as in memcached",
    },
    Different {
        ways: &[Way::Memcached],
        acts: &["an item gets a time", "an item that is read gets a time"],
        effects: &[Effect::Slow, Effect::Monitored],
        why: "a request is shown as its command, keys and value: times are left out",
    },
    Different {
        ways: &[Way::Apart, Way::Heavy, Way::HeavyInExec, Way::HeavyInScript],
        acts: &["a rare key is read", "a rare text is read", "a rare text is stored"],
        effects: &[Effect::Touch],
        why: "what begins again has used its keys before, and each use counts (units.md)",
    },
    Different {
        ways: &[Way::Replay],
        acts: &["a key is over", "a field is over", "a counter is over"],
        effects: &[Effect::Total],
        why: "a transaction of the log is no work of clients, either",
    },
    Different {
        ways: &[Way::Stream],
        acts: &["a fraction"],
        effects: &[Effect::Calls, Effect::Slow, Effect::Monitored],
        why: "a stream is in words that Redis 7.0 knows, if there are any (replication.md)",
    },
    Different {
        ways: &[Way::Stream],
        acts: &["a key is over", "a field is over", "a counter is over"],
        effects: &[Effect::Calls, Effect::Total, Effect::Slow, Effect::Monitored],
        why: "what was over is removed by itself, as all take it for absent already",
    },
];
