//! Libraries of functions on replicas of any server, whichever server made the payload of a
//! FUNCTION RESTORE.

use tests::render::{render, text};
use tests::replication::{NodeKind, await_replica, follow};
use tests::{Oracle, check};

const LIBRARY: &str = "#!lua name=lib\nredis.register_function{function_name='answer', \
                       callback=function() return 42 end, flags={'no-writes'}}";

#[test]
fn what_function_restore_brings_reaches_every_replica() {
    let kinds = Oracle::ALL.map(NodeKind::Genuine).into_iter().chain([NodeKind::Apus]);
    let kinds: Vec<NodeKind> = kinds.collect();
    let payloads = kinds.iter().map(|kind| {
        let server = kind.start(&[]);
        let mut client = server.client();
        assert_eq!(text(&client.call(&["FUNCTION", "LOAD", LIBRARY])), "lib");
        let payload = client.call(&["FUNCTION", "DUMP"]);
        payload.as_bytes().expect("a payload").to_vec()
    });
    let payloads: Vec<Vec<u8>> = payloads.collect();
    let top = NodeKind::Apus.start(&["--appendonly", "yes"]);
    let replicas: Vec<_> = kinds.iter().map(|kind| kind.start(&[])).collect();
    for replica in &replicas {
        follow(replica, top.port());
        await_replica(&top, replica);
    }
    let mut client = top.client();
    for (payload, maker) in payloads.iter().zip(&kinds) {
        for policy in ["FLUSH", "REPLACE"] {
            let reply = client.call(&[b"FUNCTION", &b"RESTORE"[..], payload, policy.as_bytes()]);
            assert_eq!(render(&reply), "OK", "{maker:?} {policy}");
            for (replica, kind) in replicas.iter().zip(&kinds) {
                await_replica(&top, replica);
                let reply = replica.client().call(&["FCALL_RO", "answer", "0"]);
                assert_eq!(render(&reply), "(integer) 42", "{maker:?} {policy} {kind:?}");
            }
            check(&mut client, "> FUNCTION FLUSH\nOK");
        }
    }
}
