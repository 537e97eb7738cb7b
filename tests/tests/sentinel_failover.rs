//! Sentinels fail over genuine Redis: ours alone, in one quorum with real ones, and with files that
//! they take over from each other.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::Oracle;
use tests::sentinel::{Heard, NAME, Sentinel, SentinelProgram, World, events_until};
use tests::server::eventually;

const APUS: SentinelProgram = SentinelProgram::Apus;
const REDIS70: SentinelProgram = SentinelProgram::Stock(Oracle::Redis70);
const REDIS82: SentinelProgram = SentinelProgram::Stock(Oracle::Redis82);
const VALKEY91: SentinelProgram = SentinelProgram::Stock(Oracle::Valkey91);

/// The events of a failover whose order does not depend on time.
const STEPS: [&str; 19] = [
    "+odown",
    "+new-epoch",
    "+try-failover",
    "+vote-for-leader",
    "+elected-leader",
    "+failover-state-select-slave",
    "+selected-slave",
    "+failover-state-send-slaveof-noone",
    "+failover-state-wait-promotion",
    "+promoted-slave",
    "+failover-state-reconf-slaves",
    "+slave-reconf-sent",
    "+slave-reconf-inprog",
    "+slave-reconf-done",
    "+failover-end",
    "+switch-master",
    "+slave",
    "-failover-abort-no-good-slave",
    "-failover-abort-not-elected",
];

/// A failover of a world that one Sentinel watches, as it tells it.
fn failover_alone(program: SentinelProgram) -> Vec<Heard> {
    let mut world = World::start(2, &[]);
    let sentinel = program.watch(&world, 1, "");
    sentinel.meet(2, 0);
    let mut listener = sentinel.listener();
    world.servers()[0].kill();
    let events = events_until(&mut listener, "+switch-master");
    let new = world.port(1);
    assert_eq!(sentinel.primary_port(), Some(new));
    eventually("the other replica follows", || world.follows(2, new));
    world.servers()[0].restart();
    eventually("the old primary follows", || world.follows(0, new));
    let known = |events: Vec<Heard>| {
        let steps = events.into_iter().filter(|(name, _)| STEPS.contains(&name.as_str()));
        steps.map(|(name, text)| (name, world.without_ports(&text))).collect::<Vec<_>>()
    };
    let steps = known(events);
    eventually("all steps are in the log", || {
        let log = world.without_ports(&sentinel.log());
        steps.iter().all(|(name, text)| log.contains(&format!("{name} {text}")))
    });
    steps
}

#[test]
fn ours_alone_tells_a_failover_as_a_real_one_does() {
    let theirs = failover_alone(REDIS70);
    assert_eq!(failover_alone(APUS), theirs);
}

/// A failover in a quorum; any of the Sentinels may lead it. Where one takes the new primary to be
/// down for a moment, there is another.
fn fail_over(world: &mut World, sentinels: &[Sentinel]) {
    let old = sentinels[0].primary_port().unwrap();
    let at = world.servers().iter().position(|server| server.port() == old).unwrap();
    world.servers()[at].kill();
    let agreed = || {
        let seen = sentinels[0].primary_port()?;
        let is_theirs = |sentinel: &Sentinel| {
            sentinel.primary_port() == Some(seen) && sentinel.field("flags") == "master"
        };
        sentinels.iter().all(is_theirs).then_some(seen)
    };
    eventually("all see one new primary", || agreed().is_some_and(|seen| seen != old));
    world.servers()[at].restart();
    let places = 0..world.servers().len();
    eventually("all others follow the primary", || {
        agreed().is_some_and(|seen| {
            places.clone().all(|index| world.port(index) == seen || world.follows(index, seen))
        })
    });
}

fn quorum_of(programs: [SentinelProgram; 3]) {
    let mut world = World::start(2, &[]);
    let sentinels = programs.map(|program| program.watch(&world, 2, ""));
    sentinels.iter().for_each(|sentinel| sentinel.meet(2, 2));
    fail_over(&mut world, &sentinels);
    // All agree on the epoch, too.
    let epochs = || sentinels.each_ref().map(|sentinel| sentinel.field("config-epoch"));
    eventually("all have one epoch", || epochs().iter().all(|epoch| *epoch == epochs()[0]));
}

#[test]
fn two_of_ours_and_one_of_redis_70() {
    quorum_of([APUS, APUS, REDIS70]);
}

#[test]
fn r10_38_one_of_ours_and_two_of_redis_82() {
    quorum_of([APUS, REDIS82, REDIS82]);
}

#[test]
fn one_sentinel_of_ours_fails_over_with_two_of_valkey() {
    quorum_of([APUS, VALKEY91, VALKEY91]);
}

/// Ours leads where it is told to, and follows where theirs is.
#[test]
fn a_sentinel_of_either_kind_can_lead() {
    for leader in [APUS, REDIS70] {
        let mut world = World::start(1, &[]);
        let follower = if leader == APUS { REDIS70 } else { APUS };
        let slow = format!("sentinel failover-timeout {NAME} 60000\n");
        let leader = leader.watch(&world, 2, "");
        let follower = follower.watch(&world, 2, &slow);
        leader.meet(1, 1);
        follower.meet(1, 1);
        let mut listener = leader.listener();
        // A failover by order is led by the Sentinel that got it.
        assert!(leader.ask(&["SENTINEL", "FAILOVER", NAME]).as_bytes() == Some(b"OK"));
        let events = events_until(&mut listener, "+switch-master");
        assert!(events.iter().any(|(name, _)| name == "+promoted-slave"), "{events:?}");
        let new = world.port(1);
        eventually("the follower hears of it", || follower.primary_port() == Some(new));
        eventually("the old primary follows", || world.follows(0, new));
        follower.expect_log("+config-update-from");
        assert!(!follower.log().contains("+promoted-slave"));
        world.servers()[0].kill();
    }
}

/// A Sentinel that was told to ends in the middle of a failover; the next one with its file knows
/// what was done.
#[test]
fn simulated_failures_end_the_process() {
    for failure in ["crash-after-election", "crash-after-promotion"] {
        let world = World::start(1, &[]);
        let mut sentinel = APUS.watch(&world, 1, "");
        sentinel.meet(1, 0);
        sentinel.ask(&["SENTINEL", "SIMULATE-FAILURE", failure]);
        // The Sentinel knows a good replica when it has heard of its link.
        eventually("it begins", || {
            sentinel.ask(&["SENTINEL", "FAILOVER", NAME]).as_bytes() == Some(b"OK")
        });
        assert_eq!(sentinel.wait().code(), Some(99), "{failure}");
        let sentinel = sentinel.hand_over(APUS);
        let at = usize::from(failure == "crash-after-promotion");
        let primary = world.port(at);
        assert_eq!(sentinel.primary_port(), Some(primary), "{failure}");
        eventually("the other one follows", || world.follows(1 - at, primary));
    }
}

/// What a file says, but for what is ours to write: without comments and in order.
fn state_of(file: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        file.lines().filter(|line| line.starts_with("sentinel ")).map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn r10_38_files_are_taken_over_from_redis_70() {
    take_over(REDIS70);
}

#[test]
fn r10_38_files_are_taken_over_from_redis_82() {
    take_over(REDIS82);
}

#[test]
fn r10_38_files_are_taken_over_from_valkey() {
    take_over(VALKEY91);
}

/// A file goes from a real Sentinel to ours and back, with a failover under each.
fn take_over(stock: SentinelProgram) {
    let mut world = World::start(2, &[]);
    let sentinel = stock.watch(&world, 1, "# mine\n");
    sentinel.meet(2, 0);
    fail_over(&mut world, std::slice::from_ref(&sentinel));
    let (primary, id) = (sentinel.primary_port(), sentinel.ask(&["SENTINEL", "MYID"]));
    sentinel.meet(2, 0);
    let before = state_of(&sentinel.file());
    let sentinel = sentinel.hand_over(APUS);
    assert_eq!(sentinel.primary_port(), primary);
    assert_eq!(sentinel.ask(&["SENTINEL", "MYID"]), id);
    sentinel.ask(&["SENTINEL", "FLUSHCONFIG"]);
    assert_eq!(state_of(&sentinel.file()), before, "{stock:?}");
    assert!(sentinel.file().contains("# mine\n"));
    sentinel.meet(2, 0);
    fail_over(&mut world, std::slice::from_ref(&sentinel));
    sentinel.meet(2, 0);
    let (primary, ours) = (sentinel.primary_port(), state_of(&sentinel.file()));
    let sentinel = sentinel.hand_over(stock);
    assert_eq!(sentinel.primary_port(), primary);
    assert_eq!(sentinel.ask(&["SENTINEL", "MYID"]), id);
    sentinel.ask(&["SENTINEL", "FLUSHCONFIG"]);
    assert_eq!(state_of(&sentinel.file()), ours, "{stock:?}");
}
