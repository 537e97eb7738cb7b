//! What links cost, beside Redis 8.2: the stream's memory, how it is counted and shown, and how
//! small pieces leave.

use rustix::net::sockopt::tcp_nodelay;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};
use tests::client::field;
use tests::peer::Peer;
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

const KINDS: [NodeKind; 2] = [NodeKind::Genuine(Oracle::Redis82), NodeKind::Apus];

const MIB: usize = 1 << 20;

/// A primary with these arguments, and a replica that has all of it.
fn pair(kind: NodeKind, arguments: &[&str]) -> [Server; 2] {
    let pair = [kind.start(arguments), kind.start(&[])];
    follow(&pair[1], pair[0].port());
    await_replica(&pair[0], &pair[1]);
    pair
}

/// The line of the one link to a replica.
fn line(client: &mut Client) -> String {
    let list = render(&client.call(&["CLIENT", "LIST", "TYPE", "replica"]));
    list.trim_matches('"').trim_end_matches("\\n").to_owned()
}

fn number(line: &str, name: &str) -> usize {
    field(line, name).parse().unwrap_or_else(|_| panic!("{name} is a number: {line}"))
}

/// The piece in which the stream ends is kept for each replica, and with a slow one all pieces from
/// where it stands.
#[test]
fn a_link_shows_the_pieces_of_the_stream_that_are_kept_for_it() {
    for kind in KINDS {
        let [primary, replica] = pair(kind, &["--client-output-buffer-limit", "replica 0 0 0"]);
        let mut client = primary.client();
        check(&mut client, "> SET k v\nOK");
        let shows = |line: &str, pieces: usize| {
            let (shown, bytes) = (number(line, "oll"), number(line, "omem"));
            let is_idle = field(line, "events") == "r";
            is_idle && shown == pieces && bytes > 16_384 && number(line, "tot-mem") > bytes
        };
        let mut seen = String::new();
        eventually("one piece", || {
            seen = line(&mut client);
            shows(&seen, 1)
        });
        replica.signal(Signal::STOP);
        let value = "v".repeat(MIB);
        eventually("what it has still to get is shown", || {
            client.call(&["SET", "k", &value]);
            seen = line(&mut client);
            let is_behind = number(&seen, "oll") > 64 && number(&seen, "omem") > 64 * 16_384;
            is_behind && field(&seen, "events") == "rw"
        });
        replica.signal(Signal::CONT);
        await_replica(&primary, &replica);
        eventually("one piece again", || number(&line(&mut client), "oll") == 1);
    }
}

/// What a backlog keeps by its size counts as data do; what it keeps for slow replicas does not, at
/// any moment, as no key that goes would free it.
#[test]
fn a_backlog_counts_for_maxmemory_up_to_its_size() {
    for kind in KINDS {
        let limits = ["--client-output-buffer-limit", "replica 0 0 0", "--repl-backlog-size"];
        let room = |client: &mut Client, bytes: usize| {
            let used = client.figure("used_memory") - client.figure("mem_not_counted_for_evict");
            let limit = (used as usize + bytes).to_string();
            let reply = client.call(&["CONFIG", "SET", "maxmemory", &limit]);
            assert_eq!(render(&reply), "OK");
        };
        let [primary, _replica] = pair(kind, &[&limits[..], &["16mb"]].concat());
        let mut client = primary.client();
        room(&mut client, 6 * MIB);
        let value = "v".repeat(MIB / 8);
        let refused = (0..256).any(|_| {
            let reply = render(&client.call(&["SET", "k", &value]));
            reply.starts_with("(error) OOM")
        });
        assert!(refused, "{kind:?}: {} bytes", client.info("mem_replication_backlog"));

        let [primary, replica] = pair(kind, &[&limits[..], &["16kb"]].concat());
        let mut client = primary.client();
        replica.signal(Signal::STOP);
        room(&mut client, 10 * MIB);
        for round in 0..64 {
            let reply = render(&client.call(&["SET", "k", &"v".repeat(MIB)]));
            assert_eq!(reply, "OK", "{kind:?}: {round}");
        }
        eventually("it is told", || client.figure("mem_clients_slaves") > 16 * MIB as i64);
        assert!(client.figure("mem_not_counted_for_evict") > 16 * MIB as i64);
        assert!(client.figure("mem_replication_backlog") < MIB as i64);
        replica.signal(Signal::CONT);
    }
}

/// However many replicas have still to get the stream, it lies in memory once.
#[test]
fn ten_slow_replicas_cost_the_memory_of_one() {
    const SENT: usize = 64;
    for replicas in [1, 10] {
        let arguments = ["--client-output-buffer-limit", "replica 0 0 0"];
        let primary = NodeKind::Apus.start(&arguments);
        let mut client = primary.client();
        let mut peers: Vec<Peer> = (0..replicas).map(|_| Peer::connect(primary.port())).collect();
        for peer in &mut peers {
            let offset = peer.sync("capa eof capa psync2").offset;
            peer.acknowledge(offset);
        }
        let online = |client: &mut Client| {
            let info = render(&client.call(&["INFO", "replication"]));
            info.matches("state=online").count()
        };
        eventually("all are online", || online(&mut client) == replicas);
        let value = "v".repeat(MIB);
        check(&mut client, "> SET k v\nOK");
        let before = primary.resident() as usize;
        for _ in 0..SENT {
            client.call(&["SET", "k", &value]);
        }
        let buffers = client.figure("mem_total_replication_buffers") as usize;
        // The kernel has some of it. Copies would be ten times as much.
        assert!((SENT / 4 * MIB..SENT * MIB * 11 / 10).contains(&buffers), "{buffers}");
        let grown = (primary.resident() as usize).saturating_sub(before);
        assert!(grown < 3 * SENT * MIB, "{replicas} replicas: {grown} bytes");
    }
}

/// Clients do not go for what replicas have still to get.
#[test]
fn what_is_kept_for_replicas_evicts_no_client() {
    for kind in KINDS {
        let [primary, replica] = pair(
            kind,
            &["--client-output-buffer-limit", "replica 0 0 0", "--maxmemory-clients", "16mb"],
        );
        let mut client = primary.client();
        replica.signal(Signal::STOP);
        for _ in 0..48 {
            assert_eq!(render(&client.call(&["SET", "k", &"v".repeat(MIB)])), "OK");
        }
        eventually("it is kept", || number(&line(&mut client), "omem") > 24 * MIB);
        // A round of the slow clock has looked at all clients.
        let rounds = client.figure("uptime_in_seconds");
        eventually("it goes on", || client.figure("uptime_in_seconds") > rounds + 1);
        assert_eq!(client.figure("evicted_clients"), 0, "{kind:?}");
        replica.signal(Signal::CONT);
    }
}

/// Whether small pieces of the stream leave at once (`repl-disable-tcp-nodelay`). Redis 8.2 heeds
/// that only without its second connection.
#[test]
fn small_pieces_of_the_stream_wait_where_that_is_configured() {
    for kind in [NodeKind::Genuine(Oracle::Redis70), NodeKind::Apus] {
        for (setting, leave_at_once) in [("no", true), ("yes", false)] {
            let [primary, _replica] = pair(kind, &["--repl-disable-tcp-nodelay", setting]);
            let (mut client, mut link) = (primary.client(), String::new());
            eventually("the connection of the data is gone", || {
                link = line(&mut client);
                !link.contains("\\n")
            });
            let number = field(&link, "fd").parse().expect("the number of its socket");
            let pid = i32::try_from(primary.pid()).ok().and_then(Pid::from_raw);
            let process = pidfd_open(pid.expect("a process has one"), PidfdFlags::empty());
            let process = process.expect("it runs");
            let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty());
            let socket = socket.expect("a process of ours, whose link is open");
            assert_eq!(tcp_nodelay(&socket), Ok(leave_at_once), "{kind:?}: {setting}");
        }
    }
}
