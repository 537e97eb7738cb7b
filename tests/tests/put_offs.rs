//! Commands on background threads that a gate holds again and again, or that wait for a key: each
//! comes to its end, and others find a thread meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use proto::value::Value;
use tests::cluster::{Program, create, id};
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server};

/// A script that computes for a while and then needs a key that it has not declared.
const UNDECLARED: &str = "local x = 0 for i = 1, 3000000 do x = x + 1 end \
                          return redis.call('incr', ARGV[1])";

fn call(client: &mut Client, line: &str) -> Value {
    client.call(&line.split(' ').collect::<Vec<_>>())
}

/// Does something again and again until the work is done.
fn beside<T>(again: impl Fn() + Sync, work: impl FnOnce() -> T) -> T {
    let is_over = AtomicBool::new(false);
    scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                again();
            }
        });
        let done = work();
        is_over.store(true, Ordering::Relaxed);
        done
    })
}

/// The locks that a script turned out to need are asked for behind a pause, and the next pause does
/// not have it begin anew for ever.
#[test]
fn a_script_beside_pauses_comes_to_its_end() {
    let server = Server::start(&[]);
    let pauses = || {
        call(&mut server.client(), "CLIENT PAUSE 200 WRITE");
        sleep(Duration::from_millis(210));
    };
    let mut client = server.client();
    let reply = beside(pauses, || client.call(&["EVAL", UNDECLARED, "0", "counter"]));
    assert_eq!(reply, Value::Integer(1));
    assert_eq!(call(&mut client, "GET counter"), Value::Bulk(b"1".to_vec()));
}

/// Other slots are opened and closed, as a reshard does: a store that computes apart goes on.
#[test]
fn a_store_beside_slots_that_open_comes_to_its_end() {
    let nodes = [Program::Apus; 3].map(|program| program.node(&[]));
    create(&nodes.each_ref(), 0);
    let [other, _, server] = &nodes;
    let other = id(other);
    let key = |name: &str| format!("{{a}}{name}");
    let mut client = server.client();
    assert_eq!(call(&mut client, "CLUSTER KEYSLOT a"), Value::Integer(15_495));
    for name in ["a", "b"] {
        let mut words = vec!["ZADD".to_owned(), key(name)];
        words.extend((0..60_000).flat_map(|number| [number.to_string(), format!("m{number}")]));
        client.call(&words);
    }
    let moves = || {
        let mut mover = server.client();
        for open in 16_000..16_020 {
            call(&mut mover, &format!("CLUSTER SETSLOT {open} MIGRATING {other}"));
            sleep(Duration::from_millis(20));
            call(&mut mover, &format!("CLUSTER SETSLOT {open} STABLE"));
        }
    };
    let words = ["ZUNIONSTORE", &key("d"), "2", &key("a"), &key("b")].map(str::to_owned);
    let reply = beside(moves, || client.call(&words));
    assert_eq!(reply, Value::Integer(60_000));
}

/// Deletions that wait, for a pause behind their first step or for a key, leave others a thread.
#[test]
fn deletions_that_wait_leave_threads_to_others() {
    let server = Server::start(&["--busy-reply-threshold", "300"]);
    let mut client = server.client();
    call(&mut client, "SET held 1");
    for number in 0..2000 {
        call(&mut client, &format!("SET p:{number} x"));
    }
    let mut holder = server.client();
    holder.send(&["EVAL", "while true do redis.call('get', KEYS[1]) end", "1", "held"]);
    let mut deleters: Vec<_> = (0..12).map(|_| server.client()).collect();
    for (number, deleter) in deleters.iter_mut().enumerate() {
        deleter.send(&["DELPREFIX", &format!("q:{number}")]);
    }
    for deleter in &mut deleters {
        let said = render(&deleter.receive());
        assert!(said.starts_with("(error) BUSY"), "{said}");
    }
    let said = render(&call(&mut client, "BGSAVE"));
    assert!(said.contains("BUSY") || said.contains("Background saving"), "{said}");
    eventually("the script is killed", || {
        call(&mut client, "SCRIPT KILL") == Value::Simple(b"OK".to_vec())
    });
    assert!(render(&holder.receive()).contains("killed"));
    assert_eq!(call(&mut client, "DELPREFIX p:"), Value::Integer(2000));
}
