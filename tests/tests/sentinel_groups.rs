//! Sentinels, ours and real ones, fail over groups of Apus nodes, and of Apus and real ones.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::Oracle;
use tests::sentinel::{SentinelProgram, World};
use tests::server::eventually;

const OURS: Option<Oracle> = None;
const REDIS70: Option<Oracle> = Some(Oracle::Redis70);
const REDIS82: Option<Oracle> = Some(Oracle::Redis82);
const VALKEY91: Option<Oracle> = Some(Oracle::Valkey91);

/// The primary dies, one of its replicas takes its place, and another one follows.
fn fail_over(sentinel: SentinelProgram, programs: &[Option<Oracle>]) {
    let mut world = World::of(programs);
    let sentinel = sentinel.watch(&world, 1, "");
    sentinel.meet(programs.len() - 1, 0);
    let mut client = world.primary().client();
    assert_eq!(tests::render::render(&client.call(&["SET", "k", "v"])), "OK");
    client.call(&["WAIT", "2", "0"]);
    let old = world.port(0);
    world.servers()[0].kill();
    eventually("there is another primary", || sentinel.primary_port().is_some_and(|it| it != old));
    let new = sentinel.primary_port().unwrap();
    let promoted = (1..programs.len()).find(|index| world.port(*index) == new).unwrap();
    let other = 3 - promoted;
    eventually("the other one follows", || world.follows(other, new));
    let mut client = world.servers()[promoted].client();
    assert_eq!(tests::render::render(&client.call(&["APPEND", "k", "w"])), "(integer) 2");
    client.call(&["WAIT", "1", "0"]);
    let mut client = world.servers()[other].client();
    assert_eq!(tests::render::render(&client.call(&["GET", "k"])), "\"vw\"");
}

#[test]
fn real_sentinels_fail_a_group_of_ours_over() {
    for oracle in Oracle::ALL {
        fail_over(SentinelProgram::Stock(oracle), &[OURS, OURS, OURS]);
    }
}

#[test]
fn our_sentinel_fails_a_group_of_ours_over() {
    fail_over(SentinelProgram::Apus, &[OURS, OURS, OURS]);
}

#[test]
fn mixed_groups_are_failed_over_both_ways() {
    for program in [SentinelProgram::Stock(Oracle::Redis70), SentinelProgram::Apus] {
        fail_over(program, &[REDIS70, OURS, REDIS70]);
        fail_over(program, &[OURS, REDIS70, OURS]);
    }
}

#[test]
fn groups_with_newer_real_nodes_are_failed_over_by_valkeys_sentinel() {
    let program = SentinelProgram::Stock(Oracle::Valkey91);
    for newer in [REDIS82, VALKEY91] {
        fail_over(program, &[OURS, newer, OURS]);
    }
}
