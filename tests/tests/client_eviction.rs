//! `maxmemory-clients`: which are closed when all clients together take too much.

use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// Sends the beginning of a request with one long argument, as far as the server takes it. Redis
/// makes room for such an argument before it comes.
fn send_a_beginning(client: &mut Client, (sent, whole): (usize, usize)) {
    let piece = vec![b'x'; 1 << 20];
    let head = format!("*2\r\n$4\r\nECHO\r\n${}\r\n", whole << 20);
    let head = client.try_send_raw(head.as_bytes());
    // A client that is closed meanwhile takes no more.
    let _ = head.and_then(|()| (0..sent).try_for_each(|_| client.try_send_raw(&piece)));
}

fn evicted(client: &mut Client) -> i64 {
    let reply = client.call(&["INFO", "stats"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("evicted_clients:"));
    line.expect("INFO has it").trim().parse().expect("a number")
}

/// H102: clients go amid a request.
#[test]
fn the_largest_client_goes_and_the_others_stay() {
    for server in [Server::start(&[]), Oracle::Redis82.start(&[])] {
        let mut small = server.client();
        check(&mut small, "> CONFIG SET maxmemory-clients 16mb\nOK\n> CLIENT SETNAME small\nOK");
        let (mut middle, mut large, mut later) =
            (server.client(), server.client(), server.client());
        send_a_beginning(&mut middle, (4, 5));
        send_a_beginning(&mut large, (20, 30));
        eventually("the largest is closed", || large.is_closed());
        assert_eq!(evicted(&mut small), 1);
        check(&mut small, "> CLIENT GETNAME\n\"small\"");
        send_a_beginning(&mut later, (14, 30));
        eventually("now this one is the largest", || later.is_closed());
        assert_eq!(evicted(&mut small), 2);
        middle.send_raw(&vec![b'y'; 1 << 20]);
        middle.send_raw(b"\r\n");
        assert_eq!(middle.receive().as_bytes().map(<[u8]>::len), Some(5 << 20));
    }
}

#[test]
fn a_client_that_may_not_be_evicted_stays() {
    for server in [Server::start(&[]), Oracle::Redis82.start(&[])] {
        let mut small = server.client();
        check(&mut small, "> CONFIG SET maxmemory 100mb maxmemory-clients 10%\nOK");
        let mut spared = server.client();
        check(&mut spared, "> CLIENT NO-EVICT on\nOK");
        spared.send_raw(b"*2\r\n$4\r\nECHO\r\n$20971520\r\n");
        let half = vec![b'x'; 10 << 20];
        spared.send_raw(&half);
        spared.send_raw(&half);
        spared.send_raw(b"\r\n");
        assert_eq!(spared.receive().as_bytes().map(<[u8]>::len), Some(20 << 20));
    }
}
