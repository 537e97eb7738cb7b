//! `maxmemory-clients`: who is closed when all clients together take too much.

use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// Sends the beginning of a request with an argument of 30 MB, as far as the server takes it.
fn send_half_a_request(client: &mut Client, megabytes: usize) {
    let piece = vec![b'x'; 1 << 20];
    if client.try_send_raw(b"*2\r\n$4\r\nECHO\r\n$31457280\r\n").is_err() {
        return;
    }
    for _ in 0..megabytes {
        if client.try_send_raw(&piece).is_err() {
            return;
        }
    }
}

fn evicted(client: &mut Client) -> i64 {
    let reply = client.call(&["INFO", "stats"]);
    let text = String::from_utf8_lossy(reply.as_bytes().expect("a text")).into_owned();
    let line = text.lines().find_map(|line| line.strip_prefix("evicted_clients:"));
    line.expect("INFO has it").trim().parse().expect("a number")
}

#[test]
fn the_largest_client_goes_and_the_others_stay() {
    for server in [Server::start(&[]), Oracle::Redis82.start(&[])] {
        let mut small = server.client();
        check(&mut small, "> CONFIG SET maxmemory-clients 16mb\nOK\n> CLIENT SETNAME small\nOK");
        let (mut large, mut middle) = (server.client(), server.client());
        send_half_a_request(&mut middle, 4);
        send_half_a_request(&mut large, 20);
        eventually("the largest is closed", || large.is_closed());
        assert_eq!(evicted(&mut small), 1);
        check(&mut small, "> CLIENT GETNAME\n\"small\"");
        // The rest of its request arrives.
        let _ = middle.try_send_raw(&vec![b'y'; 26 << 20]);
        eventually("with all of it this one is too large, too", || evicted(&mut small) == 2);
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
