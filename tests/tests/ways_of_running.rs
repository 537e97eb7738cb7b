//! Whatever way a command comes to run, the same is done: a table of ways times effects, of which
//! each cell is run beside Redis 8.2, or has a reason why there is none.
//!
//! Invariant: a cell that nothing is seen in and that has no reason fails, and so does a reason
//! for a cell that something is seen in; a difference that is on purpose is met, or its row goes.

mod acts;
mod cells;
mod observers;
mod scene;
mod seen;
mod ways;

use std::collections::BTreeSet;

use tests::Oracle;

use acts::{ACTS, Act};
use cells::{ABSENT, DIFFERENT, LEFT_OUT};
use scene::{SOON_LEAST_MS, Scene};
use seen::{Effect, Seen};
use ways::Way;

fn acts_of(way: Way) -> impl Iterator<Item = &'static Act> {
    let left_out =
        move |act: &Act| LEFT_OUT.iter().any(|row| row.way == way && row.acts.contains(&act.name));
    ACTS.iter().filter(move |act| way.runs(act.form) && !left_out(act))
}

/// The rows of differences that are about a cell of an act.
fn excuses(way: Way, act: &Act, effect: Effect) -> Vec<usize> {
    let rows = DIFFERENT.iter().enumerate().filter(|(_, row)| {
        (row.ways.is_empty() || row.ways.contains(&way))
            && row.acts.contains(&act.name)
            && row.effects.contains(&effect)
    });
    rows.map(|(at, _)| at).collect()
}

/// What was seen in a way, and what is wrong with it.
#[derive(Default)]
struct Judgement {
    met: BTreeSet<Effect>,
    wrong: Vec<String>,
    excused: BTreeSet<usize>,
}

impl Judgement {
    fn compare(&mut self, way: Way, act: &Act, ours: &Seen, theirs: &Seen) {
        for effect in Effect::ALL {
            let (found, expected) = (ours.of(effect), theirs.of(effect));
            if !found.is_empty() {
                self.met.insert(effect);
            }
            if found != expected {
                let excuses = excuses(way, act, effect);
                if excuses.is_empty() {
                    let what = format!("{way:?}, {}, {effect:?}", act.name);
                    self.wrong.push(format!("{what}\n  ours:   {found}\n  theirs: {expected}"));
                }
                self.excused.extend(excuses);
            }
        }
    }

    /// Every cell was filled or has a reason, and every reason was needed.
    fn conclude(mut self, way: Way) {
        for effect in Effect::ALL {
            let row = ABSENT.iter().find(|row| row.way == way && row.effects.contains(&effect));
            match (self.met.contains(&effect), row) {
                (true, Some(row)) => {
                    self.wrong.push(format!("{effect:?} is there, although {}", row.why));
                }
                (false, None) => self.wrong.push(format!("nothing is seen of {effect:?}")),
                _ => {}
            }
        }
        for (at, row) in DIFFERENT.iter().enumerate() {
            let is_own = row.ways.contains(&way) || row.ways.is_empty() && way == Way::Request;
            if is_own && !self.excused.contains(&at) {
                self.wrong.push(format!("it is not met that {}", row.why));
            }
        }
        for row in LEFT_OUT.iter().filter(|row| row.way == way) {
            let is_known = |name: &&&str| ACTS.iter().any(|act| act.name == **name);
            if !row.acts.iter().all(|name| is_known(&name)) {
                self.wrong.push(format!("there is no such act: {}", row.why));
            }
        }
        let Self { wrong, .. } = self;
        assert!(wrong.is_empty(), "{way:?}\n{}\n{} are wrong", wrong.join("\n"), wrong.len());
    }
}

fn judge(way: Way) {
    let (mut ours, mut theirs) = (Scene::followed(way), Scene::new(way, Some(Oracle::Redis82)));
    let mut judgement = Judgement::default();
    for act in acts_of(way) {
        let theirs = theirs.play(way, act);
        judgement.compare(way, act, &ours.play(way, act), &theirs);
    }
    judgement.conclude(way);
}

/// Each act has a log of its own.
#[test]
fn replay() {
    let mut judgement = Judgement::default();
    for act in acts_of(Way::Replay) {
        let [ours, theirs] = [None, Some(Oracle::Redis82)].map(|kind| {
            let mut times = (0..).map(|doubled| SOON_LEAST_MS << doubled);
            let seen = times.find_map(|soon_ms| Scene::new(Way::Replay, kind).replay(act, soon_ms));
            seen.expect("the machine is fast enough")
        });
        judgement.compare(Way::Replay, act, &ours, &theirs);
    }
    judgement.conclude(Way::Replay);
}

macro_rules! ways {
    ($($name:ident $way:ident),* $(,)?) => {
        $(#[test]
        fn $name() {
            judge(Way::$way);
        })*
    };
}

ways! {
    request Request,
    inline Inline,
    pipelined Pipelined,
    short_turns ShortTurns,
    batched Batched,
    batched_script BatchedScript,
    paused Paused,
    parked Parked,
    apart Apart,
    console Console,
    exec Exec,
    exec_elsewhere ExecElsewhere,
    exec_again ExecAgain,
    direct Direct,
    given_up GivenUp,
    lua Lua,
    undeclared Undeclared,
    lua_elsewhere LuaElsewhere,
    function Function,
    script_in_exec ScriptInExec,
    served Served,
    served_by_exec ServedByExec,
    served_by_script ServedByScript,
    served_again ServedAgain,
    heavy Heavy,
    heavy_in_exec HeavyInExec,
    heavy_in_script HeavyInScript,
    memcached Memcached,
    stream Stream,
}
