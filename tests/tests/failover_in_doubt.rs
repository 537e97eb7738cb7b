//! FAILOVER where the server or its successor is busy, and where the link between them is cut: it
//! ends when it should, and there are never two primaries for good.

use std::time::Duration;

use tests::proxy::{Direction, Fault, Proxy};
use tests::render::render;
use tests::replication::{await_replica, follow};
use tests::server::eventually;
use tests::{Arrival, Client, Server, check};

const ARGUMENTS: &[&str] = &["--repl-diskless-sync-delay", "0", "--save", ""];

/// A script without an end, which runs behind this: a look at its key stays without a reply while
/// each worker answers others, who came later, more than once.
fn keep_busy(server: &Server, command: &str) -> Client {
    let (mut client, mut probe) = (server.client(), server.client());
    client.send(&[command, "while true do end", "1", "held"]);
    let mut others: Vec<Client> = (0..4).map(|_| server.client()).collect();
    probe.send(&["EXISTS", "held"]);
    eventually("the script runs", || {
        for _ in 0..3 {
            others.iter_mut().for_each(|other| check(other, "> PING\nPONG"));
        }
        let is_silent = matches!(probe.arrival(Duration::from_millis(20)), Ok(Arrival::Silence));
        if !is_silent {
            probe.send(&["EXISTS", "held"]);
        }
        is_silent
    });
    client
}

fn pair() -> (Server, Server) {
    let (top, below) = (Server::start(ARGUMENTS), Server::start(ARGUMENTS));
    follow(&below, top.port());
    await_replica(&top, &below);
    (top, below)
}

fn role(server: &Server) -> String {
    server.client().info("role")
}

fn kill_script(server: &Server) {
    let mut client = server.client();
    eventually("the script is killed", || render(&client.call(&["SCRIPT", "KILL"])) == "OK");
}

#[test]
fn a_failover_ends_in_time_while_a_script_runs() {
    let (mut top, _below) = pair();
    let _script = keep_busy(&top, "EVAL");
    let mut client = top.client();
    check(&mut client, "> FAILOVER TIMEOUT 1000\nOK");
    let mut writer = top.client();
    writer.send(&["SET", "k", "v"]);
    top.wait_for_log("FAILOVER to any replica aborted: The server is busy");
    assert_eq!(client.info("master_failover_state"), "no-failover");
    assert_eq!(render(&writer.receive()), "OK");
    check(&mut client, "> FAILOVER\nOK");
    writer.send(&["SET", "k", "w"]);
    check(&mut client, "> FAILOVER ABORT\nOK");
    top.wait_for_log("FAILOVER to any replica aborted: Failover manually aborted");
    assert_eq!(render(&writer.receive()), "OK");
    assert_eq!(role(&top), "master");
    kill_script(&top);
}

/// The old primary reaches its successor through a proxy, which cuts its first connection there.
fn one_is_the_primary(fault: Fault) {
    let top = Server::start(ARGUMENTS);
    let below = Server::start(ARGUMENTS);
    let proxy = Proxy::start(below.port());
    let port = proxy.port().to_string();
    below.client().call(&["CONFIG", "SET", "replica-announce-port", &port]);
    follow(&below, top.port());
    await_replica(&top, &below);
    check(&mut top.client(), "> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
    proxy.spoil_next(fault);
    check(&mut top.client(), "> FAILOVER TIMEOUT 30000\nOK");
    eventually("it is over", || {
        proxy.accepted() > 0 && top.client().info("master_failover_state") == "no-failover"
    });
    let (primary, replica) = if role(&below) == "master" { (&below, &top) } else { (&top, &below) };
    await_replica(primary, replica);
    assert_eq!(
        (role(primary), role(replica)),
        ("master".to_owned(), "slave".to_owned()),
        "{fault:?}"
    );
    check(&mut primary.client(), "> SET other v\nOK\n> WAIT 1 0\n(integer) 1");
    check(&mut replica.client(), "> MGET k other\n1) \"v\"\n2) \"v\"");
}

#[test]
fn wherever_the_link_to_the_successor_is_cut_there_is_one_primary() {
    let up = (0..420).step_by(35).map(|at| Fault::Cut(Direction::Up, at));
    let down = (0..40).step_by(4).map(|at| Fault::Cut(Direction::Down, at));
    let faults: Vec<Fault> = up.chain(down).collect();
    for faults in faults.chunks(6) {
        std::thread::scope(|scope| {
            for fault in faults {
                scope.spawn(move || one_is_the_primary(*fault));
            }
        });
    }
}

/// A successor that was busy for too long does what a primary asks that still waits for that.
#[test]
fn a_successor_that_is_late_is_the_primary_only_if_that_is_still_wanted() {
    for is_aborted in [false, true] {
        let (mut top, below) = pair();
        check(
            &mut top.client(),
            "> CONFIG SET repl-timeout 2\nOK\n> SET k v\nOK\n> WAIT 1 0\n(integer) 1",
        );
        let _script = keep_busy(&below, "EVAL_RO");
        check(&mut top.client(), "> FAILOVER\nOK");
        top.wait_for_log("it is asked again");
        let refused = render(&top.client().call(&["SET", "k", "w"]));
        assert!(refused.contains("READONLY"), "{refused}");
        if is_aborted {
            check(&mut top.client(), "> FAILOVER ABORT\nOK");
            eventually("it is called off", || role(&top) == "master");
            check(&mut top.client(), "> SET k w\nOK");
        }
        kill_script(&below);
        let (primary, replica) = if is_aborted { (&top, &below) } else { (&below, &top) };
        eventually("it has its role", || role(primary) == "master");
        await_replica(primary, replica);
        assert_eq!((role(primary), role(replica)), ("master".to_owned(), "slave".to_owned()));
        let value = if is_aborted { "w" } else { "v" };
        check(&mut replica.client(), &format!("> GET k\n\"{value}\""));
    }
}
