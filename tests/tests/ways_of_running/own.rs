//! Acts on what only Apus has, with what is to be seen of them, the same in each way.
//!
//! Invariant: what is not told of is nothing.

use super::acts::Form::{Command, Heavy, Wait};
use super::acts::{Act, act};
use super::seen::Effect;

/// An act, and what is to be seen.
pub(super) struct OwnAct {
    pub(super) act: Act,
    /// How the reply ends.
    pub(super) reply: &'static str,
    pub(super) told: &'static [(Effect, &'static str)],
}

/// What is compared: what a way has no part in.
pub(super) const JUDGED: &[Effect] = &[
    Effect::Events,
    Effect::Told,
    Effect::ToldByPrefix,
    Effect::Watch,
    Effect::Lookups,
    Effect::Changes,
];

const BIG_SET: &str = "EVAL \"for i = 1, 30000 do redis.call('SADD', KEYS[1], 'f' .. i) end\" 1 t";

/// What a change leaves of which all are told, with these events and that many changes.
macro_rules! told {
    ($events:literal, $changes:literal, $lookups:literal) => {
        &[
            (Effect::Events, $events),
            (Effect::Told, "1) \"t\""),
            (Effect::ToldByPrefix, "1) \"t\""),
            (Effect::Watch, "broken"),
            (Effect::Lookups, $lookups),
            (Effect::Changes, $changes),
        ]
    };
}

pub(super) const OWN_ACTS: &[OwnAct] = &[
    OwnAct {
        act: act("a member is over", &["SADD t a b"], Command("SADD t a"))
            .over(&["EXPIREMEMBER t a SOON ms"]),
        reply: "(integer) 1",
        told: told!("sexpired t, sadd t", "1", "expired_subkeys 1"),
    },
    OwnAct {
        act: act("the last member is over", &["ZADD t 1 a"], Command("ZREM t a"))
            .over(&["EXPIREMEMBER t a SOON ms"]),
        reply: "(integer) 0",
        told: told!("zexpired t, del t", "", "expired_subkeys 1"),
    },
    OwnAct {
        // Its member goes as the wait begins.
        act: act(
            "a pop waits among members that are over",
            &["ZADD t 1 a"],
            Wait("BZPOPMIN t 0", "ZADD t 2 b"),
        )
        .over(&["EXPIREMEMBER t a SOON ms"]),
        reply: "1) \"t\"\n2) \"b\"\n3) \"2\"",
        told: told!("new t, zadd t, zpopmin t, del t", "2", ""),
    },
    OwnAct {
        act: act("a member of many is over", &[BIG_SET], Heavy("SREM t @5000"))
            .over(&["EXPIREMEMBER t f7 SOON ms"]),
        reply: "(integer) 4999",
        told: told!("sexpired t, srem t", "4999", "expired_subkeys 1"),
    },
];
