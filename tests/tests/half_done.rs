//! A panic leaves nothing half done, wherever in a unit it comes: its changes are undone, those
//! whom it served wait on and all locks are free; or the process says why and ends, and what its
//! log brings back is what was there before.
//!
//! `APUS_PANICS=10000` asks for so many of each kind, of a fresh seed.

use base::random::Random;
use proto::value::Value;
use tests::Client;
use tests::client::Arrival;
use tests::render::render;
use tests::server::eventually;
use tests::units::{Draw, Stage};

/// How many units of each kind a short run has.
const UNITS: usize = 30;
/// The seed of a short run; a long one draws its own.
const SEED: u64 = 14;

fn digest(client: &mut Client) -> String {
    render(&client.call(&["DEBUG", "DIGEST"]))
}

/// Units that panic by one cause; how many did and were undone, and how many ended the process.
fn panic_by(cause: &str) -> (usize, usize) {
    let asked = std::env::var("APUS_PANICS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_PANICS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    let mut draw = Draw(Random::from_seed(seed));
    let mut stage = Stage::new("always");
    stage.server.may_panic();
    let (mut undone, mut ended) = (0, 0);
    for number in 0..asked.unwrap_or(UNITS) {
        let unit = draw.unit();
        let step = (1 + draw.0.below(unit.len() as u64)).to_string();
        let what = format!("unit {number} of seed {seed}, {cause} at step {step}:\n{unit:#?}");
        let before = digest(&mut stage.admin);
        stage.admin.call(&["DEBUG", "DRILL", cause, &step]);
        stage.attempt(&unit);
        // A process that has ended answers nothing more.
        let is_to_come = stage.admin.try_call(&["DEBUG", "DRILL"]);
        if is_to_come.is_err() {
            eventually("the process has ended", || stage.server.has_ended());
            ended += 1;
            assert!(stage.server.log().contains("The process ends: "), "{what}");
            stage.server.restart();
            stage.admin = stage.server.client();
            // Behind the record what it tells of is done.
            if cause != "PANIC-BEHIND-COMMIT" {
                assert_eq!(digest(&mut stage.admin), before, "{what}");
            }
        } else if matches!(is_to_come, Ok(Value::Integer(0))) {
            undone += 1;
            assert_eq!(digest(&mut stage.admin), before, "{what}");
            for (client, id) in &mut stage.waiters {
                let unblocked = stage.admin.call(&["CLIENT", "UNBLOCK", id]);
                // The unit itself may have ended its wait before.
                if unblocked == Value::Integer(1) {
                    assert!(matches!(client.receive(), Value::Null | Value::NullArray), "{what}");
                }
            }
        }
        // All locks are free, and everybody is served.
        stage.set_up();
    }
    let before = digest(&mut stage.admin);
    stage.server.kill();
    stage.server.restart();
    assert_eq!(digest(&mut stage.server.client()), before);
    (undone, ended)
}

#[test]
fn of_a_step_that_panics_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-BEFORE");
    eprintln!("before a step: {undone} undone, {ended} ended");
    assert!(undone > 0);
}

#[test]
fn of_a_change_whose_step_panics_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-BEHIND");
    eprintln!("behind a step: {undone} undone, {ended} ended");
    assert!(undone > 0 && ended > 0);
}

#[test]
fn of_a_commit_that_panics_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-AT-COMMIT");
    eprintln!("at the commit: {undone} undone, {ended} ended");
    assert!(undone > 0 && ended > 0);
}

#[test]
fn of_a_panic_when_others_are_served_nothing_is_left() {
    let (undone, ended) = panic_by("PANIC-AT-SERVICE");
    eprintln!("at a service: {undone} undone, {ended} ended");
    assert!(undone > 0);
}

#[test]
fn half_a_commit_ends_the_process() {
    let (undone, ended) = panic_by("PANIC-BEHIND-COMMIT");
    eprintln!("behind the commit: {undone} undone, {ended} ended");
    assert!(undone == 0 && ended > 0);
}

/// What is closed by a panic says no more.
#[test]
fn a_panic_outside_of_units_costs_one_client() {
    let mut stage = Stage::new("no");
    stage.server.may_panic();
    stage.admin.call(&["DEBUG", "DRILL", "PANIC-BEFORE"]);
    let mut client = stage.server.client();
    client.send(&["EVAL", "return redis.call('GET', 's')", "1", "s"]);
    assert!(matches!(client.arrival(std::time::Duration::from_secs(30)), Ok(Arrival::Closed)));
    assert_eq!(render(&stage.admin.call(&["GET", "s"])), "\"text\"");
}
