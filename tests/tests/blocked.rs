//! Sessions that wait: a peer that hangs up is noticed, and what it sent meanwhile is kept.

use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server};

fn clients_blocked(watcher: &mut Client) -> bool {
    !render(&watcher.call(&["INFO", "clients"])).contains("blocked_clients:0")
}

#[test]
fn a_client_that_hangs_up_while_it_waits_is_forgotten() {
    let server = Server::start(&[]);
    let mut watcher = server.client();
    let mut waiting = server.client();
    waiting.send(&["WAIT", "1", "0"]);
    eventually("the client is blocked", || clients_blocked(&mut watcher));
    drop(waiting);
    eventually("the client is gone", || !clients_blocked(&mut watcher));
}

#[test]
fn requests_sent_during_a_wait_are_answered_after_it() {
    let server = Server::start(&[]);
    let mut watcher = server.client();
    let mut client = server.client();
    client.send(&["WAIT", "1", "500"]);
    eventually("the client is blocked", || clients_blocked(&mut watcher));
    client.send(&["ECHO", "later"]);
    assert_eq!(render(&client.receive()), "(integer) 0");
    assert_eq!(render(&client.receive()), "\"later\"");
}
