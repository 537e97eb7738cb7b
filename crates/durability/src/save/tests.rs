//! Saves that are called off, with the world held so that none of them comes to its cut.

use std::thread;

use engine::runtime::background;
use keyspace::Acquisition;

use crate::durability::Durability;
use crate::save::SaveMode;
use crate::testing::{await_end, durability_on, new_disk};

/// A server that saves by itself, and its world.
fn held() -> (&'static Durability, Acquisition) {
    let server = durability_on(Box::new(new_disk()));
    server.config.set_many(&[b"save", b"3600 1"], true).unwrap();
    let mut world = Acquisition::of_world(server.keyspace);
    assert!(background::wait_while(&mut world, || true));
    (server, world)
}

#[test]
fn a_flush_before_the_cut_of_a_last_save_that_is_called_off_is_left_to_the_next() {
    let (server, world) = held();
    let last = thread::spawn(|| {
        let mut world = Acquisition::of_world(server.keyspace);
        server.saves.hold_world(server, SaveMode::Final, &mut world).is_ok()
    });
    await_end("the wait for a last save", || server.saves.is_running());
    server.saves.on_flushall(server);
    assert!(!server.saves.cancel(), "it is none of the background");
    assert!(server.saves.cancel_last());
    assert!(!last.join().unwrap());
    assert!(server.journal.snapshot_fence.is_up() && server.saves.is_running());
    drop(world);
    await_end("the next save", || !server.journal.snapshot_fence.is_up());
    server.saves.wait();
}

#[test]
fn none_but_the_last_save_begins_until_an_end_gives_its_turn_back() {
    let (server, world) = held();
    assert!(server.saves.begin(server, SaveMode::Background, None).is_ok());
    let turn = server.saves.take_end_turn(server);
    for mode in [SaveMode::Background, SaveMode::Awaited, SaveMode::Following] {
        assert!(server.saves.begin(server, mode, None).is_err(), "{mode:?}");
    }
    server.saves.on_flushall(server);
    assert!(server.journal.snapshot_fence.is_up() && !server.saves.is_running());
    drop(turn);
    assert!(
        server.journal.snapshot_fence.is_up() && server.saves.is_running(),
        "the file follows now"
    );
    drop(world);
    await_end("the next save", || !server.journal.snapshot_fence.is_up());
    server.saves.wait();
}
