//! What an operator does to a group: users that go, ids that change, and commands that have to wait
//! until a replica has its data.

use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow, outrun};
use tests::server::eventually;
use tests::{Client, Oracle, check};

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

#[test]
fn a_user_that_is_deleted_takes_its_replicas_along() {
    let settings = ["--masteruser", "mover", "--masterauth", "secret"];
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let (top, replica) = (kind.start(&[]), NodeKind::Apus.start(&settings));
        let mut client = top.client();
        check(&mut client, "> ACL SETUSER mover on >secret +psync +replconf +ping\nOK");
        follow(&replica, top.port());
        await_replica(&top, &replica);
        // Whoever may not log in any more stays.
        check(&mut client, "> ACL SETUSER mover off\nOK\n> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        check(&mut client, "> ACL DELUSER mover\n(integer) 1");
        eventually("the link is closed", || client.info("connected_slaves") == "0");
        let mut below = replica.client();
        eventually("it is told", || below.info("master_link_status") == "down");
    }
}

#[test]
fn whoever_asks_to_go_on_behind_a_change_of_the_id_gets_all_data() {
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let (top, replica) = (kind.start(&[]), NodeKind::Apus.start(&[]));
        follow(&replica, top.port());
        await_replica(&top, &replica);
        let mut client = top.client();
        let before = client.info("master_replid");
        check(&mut client, "> DEBUG CHANGE-REPL-ID\nOK\n> SET k v\nOK\n> WAIT 1 0\n(integer) 1");
        assert_ne!(client.info("master_replid"), before);
        assert_eq!(client.info("master_replid2"), "0".repeat(40));
        check(&mut client, "> CLIENT KILL TYPE replica\n(integer) 1");
        eventually("all data are sent", || client.info("sync_full") == "2");
        await_replica(&top, &replica);
        assert_eq!(replica.client().info("master_replid"), client.info("master_replid"));
    }
}

#[test]
fn what_may_not_run_beside_a_load_is_refused_meanwhile() {
    const LOADING: &str = "(error) LOADING Redis is loading the dataset in memory";
    let settings =
        ["--repl-diskless-load", "swapdb", "--loading-process-events-interval-bytes", "1024"];
    let top = NodeKind::Apus.start(&["--repl-backlog-size", "16384"]);
    check(&mut top.client(), "> DEBUG POPULATE 2000\nOK");
    for kind in [NodeKind::Apus, NodeKind::Genuine(Oracle::Redis82)] {
        let below = kind.start(&settings);
        follow(&below, top.port());
        await_replica(&top, &below);
        let mut client = below.client();
        assert_eq!(ask(&mut client, "CONFIG SET key-load-delay 2000"), "OK");
        outrun(&top, &below, || {
            for _ in 0..50 {
                top.client().call(&["SET", "large", &"x".repeat(1000)]);
            }
        });
        eventually("data are loaded beside", || client.info("async_loading") == "1");
        for line in ["SAVE", "BGSAVE", "BGREWRITEAOF", "REPLICAOF NO ONE", "SLAVEOF NO ONE", "SYNC"]
        {
            assert_eq!(ask(&mut client, line), LOADING, "{line}");
        }
        assert_eq!(ask(&mut client, "GET key:1"), "\"value:1\"");
        assert_eq!(ask(&mut client, "MULTI"), "OK");
        assert_eq!(ask(&mut client, "BGSAVE"), LOADING);
        let aborted = "(error) EXECABORT Transaction discarded because of previous errors.";
        assert_eq!(ask(&mut client, "EXEC"), aborted);
        assert_eq!(ask(&mut client, "CONFIG SET key-load-delay 0"), "OK");
        await_replica(&top, &below);
        assert_eq!(ask(&mut client, "BGSAVE"), "Background saving started");
    }
}
