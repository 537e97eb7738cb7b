//! A group of servers is replaced one by one while clients write: a new replica, FAILOVER, the next
//! one. No write that was acknowledged is lost, and no client meets more than a READONLY.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use proto::value::Value;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Server};

/// How many clients write.
const WRITERS: usize = 3;

/// Clients that write to the primary, whichever server that is, until they are told to end.
struct Writers {
    /// The ports of the servers that there are.
    ports: Mutex<Vec<u16>>,
    is_over: AtomicBool,
}

impl Writers {
    /// Adds numbers to a set of this writer's own; how many were acknowledged. One whose answer
    /// did not come is added again: that changes nothing if it is there.
    fn run(&self, writer: usize) -> i64 {
        let key = format!("set:{writer}");
        let (mut client, mut next): (Option<Client>, i64) = (None, 0);
        while !self.is_over.load(Ordering::Relaxed) {
            let number = next.to_string();
            let reply = client.as_mut().map(|client| client.try_call(&["SADD", &key, &number]));
            match reply {
                Some(Ok(Value::Integer(_))) => next += 1,
                Some(Ok(other)) => {
                    let text = render(&other);
                    let is_expected = ["READONLY", "LOADING", "UNBLOCKED", "MASTERDOWN"];
                    assert!(is_expected.iter().any(|it| text.contains(it)), "{text}");
                    client = self.connect();
                }
                Some(Err(_)) | None => client = self.connect(),
            }
        }
        next
    }

    /// A connection to the primary, if one is found.
    fn connect(&self) -> Option<Client> {
        let ports = self.ports.lock().expect("no holder panics").clone();
        let mut clients = ports.into_iter().filter_map(|port| Client::try_connect(port).ok());
        clients.find_map(|mut client| {
            let role = render(&client.try_call(&["ROLE"]).ok()?);
            role.contains("\"master\"").then_some(client)
        })
    }

    /// A new server takes the place of an old replica.
    fn join(&self, primary: &Server) -> Server {
        let replica = NodeKind::Apus.start(&[]);
        follow(&replica, primary.port());
        let mut client = replica.client();
        eventually("the new one is up", || client.info("master_link_status") == "up");
        self.ports.lock().expect("no holder panics").push(replica.port());
        replica
    }

    fn leave(&self, server: Server) {
        self.ports.lock().expect("no holder panics").retain(|port| *port != server.port());
        drop(server);
    }

    /// A replica becomes the primary, and the old one its replica.
    fn hand_over(&self, from: &Server, to: &Server) {
        let port = to.port().to_string();
        let mut client = from.client();
        eventually("it knows the replica as online", || {
            let words = ["FAILOVER", "TO", "127.0.0.1", &port, "TIMEOUT", "60000"];
            render(&client.call(&words)) == "OK"
        });
        eventually("the two have changed places", || {
            client.info("role") == "slave" && client.info("master_failover_state") == "no-failover"
        });
        assert_eq!(to.client().info("role"), "master");
        eventually("it follows", || client.info("master_link_status") == "up");
    }
}

#[test]
fn a_group_is_replaced_under_load_and_loses_no_write() {
    let (first, second) = (NodeKind::Apus.start(&[]), NodeKind::Apus.start(&[]));
    tests::samples::fill(&mut first.client(), false);
    follow(&second, first.port());
    await_replica(&first, &second);
    let ports = Mutex::new(vec![first.port(), second.port()]);
    let writers = Writers { ports, is_over: AtomicBool::new(false) };
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let writers = &writers;
                scope.spawn(move || writers.run(writer))
            })
            .collect();
        let (mut primary, mut replica) = (first, second);
        for _ in 0..2 {
            let newer = writers.join(&primary);
            writers.leave(replica);
            writers.hand_over(&primary, &newer);
            (replica, primary) = (primary, newer);
        }
        let newest = writers.join(&primary);
        writers.leave(replica);
        writers.is_over.store(true, Ordering::Relaxed);
        let written: Vec<i64> =
            running.into_iter().map(|it| it.join().expect("it saw what it may see")).collect();
        await_replica(&primary, &newest);
        assert!(written.iter().all(|count| *count > 0), "{written:?}");
        for server in [&primary, &newest] {
            for (writer, count) in written.iter().enumerate() {
                let found = server.client().call(&["SCARD", &format!("set:{writer}")]);
                let Value::Integer(found) = found else { panic!("{found:?}") };
                // The last one may be there without its answer.
                assert!((*count..=count + 1).contains(&found), "lost: {count} {found}");
            }
        }
    });
}
