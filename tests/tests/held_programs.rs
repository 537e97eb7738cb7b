//! Programs that a gate holds behind their beginning on a heavy-work thread keep no thread there.

use std::thread::sleep;
use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::{Client, Server};

/// More programs than there are threads for heavy work.
const PROGRAMS: usize = 48;

/// Runs until `maxclients` is this, and needs a lock then that was not named.
const LONG: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321') \
                    return redis.call('INCR', 'other')";

fn eval(place: usize) -> Vec<String> {
    ["EVAL", LONG, "1", &format!("key{place}")].map(str::to_owned).to_vec()
}

/// Fills two sets whose common members take long to count.
fn fill(admin: &mut Client) {
    for (set, from) in [("first", 0), ("second", 50_000)] {
        for thousand in 0..100 {
            let members = (0..1000).map(|it| (from + thousand * 1000 + it).to_string());
            let words = [vec!["SADD".to_owned(), set.to_owned()], members.collect()].concat();
            admin.call(&words);
        }
    }
}

/// Has a pause of writes hold many programs, and another client read meanwhile: what the programs
/// answer when the pause is over.
fn answers_behind_a_pause(is_watching: bool) -> Vec<Value> {
    let server = Server::start(&["--busy-reply-threshold", "30000"]);
    let mut admin = server.client();
    fill(&mut admin);
    let mut clients: Vec<Client> = (0..PROGRAMS).map(|_| server.client()).collect();
    for (place, client) in clients.iter_mut().enumerate() {
        if is_watching {
            client.call(&["WATCH", &format!("watched{place}")]);
            client.call(&["MULTI"]);
            client.call(&eval(place));
            client.send(&["EXEC"]);
        } else {
            client.send(&eval(place));
        }
    }
    // What has not left its worker by now is held there, and costs no thread in any case.
    sleep(Duration::from_millis(500));
    let mut pausing = server.client();
    pausing.send(&["CLIENT", "PAUSE", "600000", "WRITE"]);
    sleep(Duration::from_millis(200));
    assert_eq!(render(&admin.call(&["CONFIG", "SET", "maxclients", "4321"])), "OK");
    assert_eq!(render(&pausing.receive()), "OK");
    for _ in 0..8 {
        let reply = admin.call(&["SINTERCARD", "2", "first", "second"]);
        assert_eq!(render(&reply), "(integer) 50000");
    }
    assert_eq!(render(&admin.call(&["CLIENT", "UNPAUSE"])), "OK");
    clients.iter_mut().map(Client::receive).collect()
}

#[test]
fn scripts_and_transactions_that_a_pause_holds_keep_no_thread() {
    for is_watching in [false, true] {
        let mut answers: Vec<String> =
            answers_behind_a_pause(is_watching).iter().map(render).collect();
        let expected = |count: usize| match is_watching {
            true => format!("1) (integer) {count}"),
            false => format!("(integer) {count}"),
        };
        let mut all: Vec<String> = (1..=PROGRAMS).map(expected).collect();
        answers.sort_unstable();
        all.sort_unstable();
        assert_eq!(answers, all);
    }
}
