//! Full syncs whose data come on a second connection while the stream goes on: Apus and the real
//! servers in both roles, either connection cut anywhere, and peers that do what none does.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::{BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use base::random::Random;
use tests::impostor::next_request;
use tests::proxy::{Direction, Fault, Proxy};
use tests::render::render;
use tests::replication::{NodeKind, await_replica, follow};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

use crate::append_only::{differences, state};
use crate::replication_primary::state_of;

const ID: &str = "1234567890abcdef1234567890abcdef12345678";
const MARK: &str = "0123456789012345678901234567890123456789";

/// How long the end of a connection may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A fault that never comes.
const SOUND: Fault = Fault::Cut(Direction::Down, u64::MAX);

/// The nodes that speak each dialect, with what switches it on.
const WAYS: [(NodeKind, &[&str]); 3] = [
    (NodeKind::Genuine(Oracle::Redis82), &["--repl-rdb-channel", "yes"]),
    (NodeKind::Genuine(Oracle::Valkey91), &["--dual-channel-replication-enabled", "yes"]),
    (NodeKind::Apus, &[]),
];

fn whole_state(server: &Server) -> crate::append_only::State {
    match server.is_oracle() {
        true => {
            let mut client = server.client();
            eventually("no save goes on", || client.info("rdb_bgsave_in_progress") == "0");
            state_of(server)
        }
        false => state(&mut server.client()),
    }
}

#[track_caller]
fn assert_same(primary: &Server, replica: &Server, what: &str) {
    let (expected, found) = (whole_state(primary), whole_state(replica));
    assert!(expected == found, "{what}: {}", differences(&expected, &found));
}

/// Writes in two databases until something is done.
#[track_caller]
fn write_until(primary: &Server, what: &str, mut done: impl FnMut() -> bool) {
    let mut client = primary.client();
    let mut turn = 0;
    eventually(what, || {
        for _ in 0..20 {
            turn += 1;
            client.call(&["SELECT", if turn % 7 == 0 { "5" } else { "0" }]);
            client.call(&["SET", &format!("key:{}", turn % 50), &format!("{turn}")]);
            client.call(&["RPUSH", "list", &turn.to_string()]);
        }
        done()
    });
}

#[test]
fn both_roles_of_both_dialects_under_writes() {
    for (peer, switch) in WAYS {
        let slow = ["--repl-diskless-sync-delay", "1"];
        for (above, below) in [(peer, NodeKind::Apus), (NodeKind::Apus, peer)] {
            let primary = above.start(&[switch, &slow].concat());
            let mut replica = below.start(switch);
            tests::samples::fill(&mut primary.client(), false);
            check(&mut primary.client(), "> SELECT 5\nOK\n> SET k v\nOK");
            follow(&replica, primary.port());
            let mut client = replica.client();
            write_until(&primary, "it is up", || client.info("master_link_status") == "up");
            await_replica(&primary, &replica);
            assert_same(&primary, &replica, &format!("{above:?} {below:?}"));
            let mut client = primary.client();
            assert_eq!(client.info("sync_full"), "1", "{above:?} {below:?}");
            assert_eq!(client.info("connected_slaves"), "1");
            // The way was taken.
            match peer {
                NodeKind::Genuine(Oracle::Valkey91) => {
                    assert_eq!(client.info("sync_partial_ok"), "1", "{above:?} {below:?}");
                }
                _ if below == NodeKind::Apus => {
                    replica.wait_for_log("Starting to receive RDB and replication stream");
                }
                _ => replica.wait_for_log("initialize RDB channel"),
            }
        }
    }
}

/// Where both know both ways, the one with fewer turns is taken, and without a switch none is.
#[test]
fn apus_takes_one_way_among_its_own() {
    let both = ["--dual-channel-replication-enabled", "yes"];
    let neither = ["--repl-rdb-channel", "no"];
    for (arguments, line) in [
        (&both[..], "replicas sockets (rdb-channel)"),
        (&[both, neither].concat()[..], "replicas sockets using: dual-channel"),
        (&neither[..], "target: replicas sockets\n"),
    ] {
        let mut primary = NodeKind::Apus.start(arguments);
        let replica = NodeKind::Apus.start(arguments);
        tests::samples::fill(&mut primary.client(), false);
        follow(&replica, primary.port());
        await_replica(&primary, &replica);
        primary.wait_for_log(line);
        assert_same(&primary, &replica, line);
    }
}

/// What a connection may be cut at: some places, or every one of the first so many bytes.
fn places(len: u64) -> Vec<u64> {
    let is_thorough = std::env::var("APUS_REPLICATION_CUTS").is_ok_and(|value| value == "all");
    let step = if is_thorough { 1 } else { 67 };
    (0..len).step_by(step).chain([len + 5000, len + 50_000]).collect()
}

/// Adds a value that stays long in a snapshot.
fn fill_long(primary: &Server) {
    let mut random = Random::from_seed(1);
    let value: Vec<u8> = (0..200_000).map(|_| random.next_u64() as u8).collect();
    assert_eq!(render(&primary.client().call(&[&b"SET"[..], b"long", &value])), "OK");
}

/// The first connection is sound, and the second one of each sync has a fault; in the end all is
/// there.
fn survives_on_channel(peer: NodeKind, switch: &[&str], faults: &[Fault]) {
    let hasty = ["--repl-timeout", "3", "--repl-ping-replica-period", "1"];
    let arguments = [switch, &hasty].concat();
    let (primary, replica) = (peer.start(&arguments), NodeKind::Apus.start(&arguments));
    tests::samples::fill(&mut primary.client(), false);
    fill_long(&primary);
    let proxy = Proxy::start(primary.port());
    for fault in faults {
        proxy.spoil_next(SOUND);
        proxy.spoil_next(*fault);
    }
    follow(&replica, proxy.port());
    write_until(&primary, "a sync is sound", || proxy.accepted() > 2 * faults.len());
    await_replica(&primary, &replica);
    assert_same(&primary, &replica, &format!("{peer:?} {faults:?}"));
}

#[test]
fn a_second_connection_may_be_cut_at_any_byte() {
    for (peer, switch) in WAYS {
        let up = places(150).into_iter().take_while(|at| *at < 150);
        let up = up.map(|at| Fault::Cut(Direction::Up, at));
        let down = places(250).into_iter().map(|at| Fault::Cut(Direction::Down, at));
        let faults: Vec<Fault> = up.chain(down).collect();
        for faults in faults.chunks(64) {
            std::thread::scope(|scope| {
                for faults in faults.chunks(8) {
                    scope.spawn(move || survives_on_channel(peer, switch, faults));
                }
            });
        }
    }
}

#[test]
fn a_second_connection_that_says_nothing_is_given_up() {
    for (peer, switch) in WAYS {
        let silence = |at| Fault::Silence(Direction::Down, at);
        survives_on_channel(peer, switch, &[silence(3), silence(40), silence(30_000)]);
    }
}

/// The first connection is cut where its stream begins, before all data have come.
#[test]
fn a_first_connection_may_be_cut_while_the_data_come() {
    for (peer, switch) in WAYS {
        let delay = ["--repl-diskless-sync-delay", "1"];
        let primary = peer.start(&[switch, &delay].concat());
        let replica = NodeKind::Apus.start(switch);
        tests::samples::fill(&mut primary.client(), false);
        let proxy = Proxy::start(primary.port());
        let cuts = [0, 30, 60, 64, 75, 100, 140, 200, 5000];
        for at in cuts {
            proxy.spoil_next(Fault::Cut(Direction::Down, at));
            if at > 60 {
                proxy.spoil_next(SOUND);
            }
        }
        follow(&replica, proxy.port());
        let mut client = replica.client();
        write_until(&primary, "it has come back", || {
            proxy.accepted() > cuts.len() && client.info("master_link_status") == "up"
        });
        await_replica(&primary, &replica);
        assert_same(&primary, &replica, &format!("{peer:?}"));
    }
}

/// What cannot be held waits with the primary.
#[test]
fn a_replica_holds_no_more_than_its_limit() {
    for (peer, switch) in WAYS {
        let primary = peer.start(switch);
        let limit = ["--replica-full-sync-buffer-limit", "100kb"];
        let replica = NodeKind::Apus.start(&[switch, &limit].concat());
        fill_long(&primary);
        // The data come slowly, as the proxy in between stops for a while.
        let proxy = Proxy::start(primary.port());
        proxy.spoil_next(SOUND);
        proxy.spoil_next(Fault::Silence(Direction::Down, 20_000));
        follow(&replica, proxy.port());
        let mut client = replica.client();
        let mut writer = primary.client();
        let value = "v".repeat(10_000);
        let mut written = 0;
        eventually("so much is held", || {
            written += 1;
            writer.call(&["SET", &format!("held:{written}"), &value]);
            client.figure("replica_full_sync_buffer_size") >= 100 << 10
        });
        for _ in 0..200 {
            written += 1;
            writer.call(&["SET", &format!("held:{written}"), &value]);
        }
        let size = client.figure("replica_full_sync_buffer_size");
        assert!(size < (100 << 10) + (300 << 10), "{size}");
        assert_eq!(client.figure("mem_replica_full_sync_buffer"), size);
        // A primary that says nothing more is given up, and the next sync is sound.
        check(&mut client, "> CONFIG SET repl-timeout 1\nOK");
        await_replica(&primary, &replica);
        assert_same(&primary, &replica, &format!("{peer:?}"));
        assert_eq!(client.info("replica_full_sync_buffer_size"), "0");
    }
}

/// A primary that does what the test says, on the connections that come to it.
struct FakePrimary(TcpListener);

/// One of them.
struct FakeLink {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl FakePrimary {
    fn start() -> Self {
        Self(TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    fn accept(&self) -> FakeLink {
        let (stream, _) = self.0.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        FakeLink { stream, lines }
    }

    /// A first connection that is to take its data on a second one, and that one.
    fn open(&self) -> (FakeLink, FakeLink) {
        let mut main = self.accept();
        main.greet();
        main.say("+RDBCHANNELSYNC 7\r\n");
        let mut channel = self.accept();
        let words = channel.hear();
        assert!(words.contains("rdb-only 1 rdb-channel 1 main-ch-client-id 7"), "{words}");
        channel.say("+OK\r\n");
        assert_eq!(channel.hear(), "PSYNC ? -1");
        (main, channel)
    }
}

impl FakeLink {
    fn say(&mut self, bytes: impl AsRef<[u8]>) {
        self.stream.write_all(bytes.as_ref()).unwrap();
    }

    fn hear(&mut self) -> String {
        next_request(&mut self.lines).unwrap_or_else(|| "closed".to_owned())
    }

    /// Up to PSYNC, which is returned.
    fn greet(&mut self) -> String {
        loop {
            let words = self.hear();
            match words.split(' ').next().unwrap() {
                "PING" => self.say("+PONG\r\n"),
                "REPLCONF" => self.say("+OK\r\n"),
                _ => return words,
            }
        }
    }

    /// Waits until the other side closes.
    fn await_end(&mut self) {
        self.stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut rest = Vec::new();
        if let Err(error) = self.lines.read_to_end(&mut rest) {
            // Bytes that nobody has read are in flight.
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        }
    }
}

/// A snapshot with `base` in it.
fn snapshot() -> Vec<u8> {
    let server = Server::start(&["--save", ""]);
    check(&mut server.client(), "> SET base 1\nOK\n> SAVE\nOK");
    std::fs::read(server.folder().join("dump.rdb")).unwrap()
}

fn set(key: &str) -> Vec<u8> {
    tests::client::encode(&["SET", key, "1"])
}

#[test]
fn what_was_held_counts_though_its_connection_is_gone() {
    let data = snapshot();
    for mode in ["disabled", "swapdb", "flush-before-load"] {
        let primary = FakePrimary::start();
        let replica = Server::start(&["--save", "", "--repl-diskless-load", mode]);
        follow(&replica, primary.port());
        let (mut main, mut channel) = primary.open();
        channel.say(format!("+FULLRESYNC {ID} 100\r\n$EOF:{MARK}\r\n"));
        channel.say(&data[..data.len() / 2]);
        let held = [set("first"), set("second")].concat();
        main.say(&held);
        main.say("*3\r\n$3\r\nSET\r\n");
        let mut client = replica.client();
        let len = held.len() as i64 + 13;
        eventually("it is held", || client.figure("replica_full_sync_buffer_size") == len);
        drop(main);
        channel.say(&data[data.len() / 2..]);
        channel.say(MARK);
        let mut again = primary.accept();
        let offset = 100 + held.len() + 1;
        assert_eq!(again.greet(), format!("PSYNC {ID} {offset}"), "{mode}");
        again.say("+CONTINUE\r\n");
        again.say(set("third"));
        eventually("all is there", || {
            render(&client.call(&["EXISTS", "base", "first", "second", "third"])) == "(integer) 4"
        });
    }
}

#[test]
fn a_second_connection_that_breaks_takes_the_first_one_with_it() {
    let data = snapshot();
    let primary = FakePrimary::start();
    let replica = Server::start(&["--save", ""]);
    check(&mut replica.client(), "> SET own 1\nOK");
    follow(&replica, primary.port());
    let (mut main, mut channel) = primary.open();
    channel.say(format!("+FULLRESYNC {ID} 100\r\n$EOF:{MARK}\r\n"));
    channel.say(&data[..data.len() / 2]);
    main.say(set("never"));
    drop(channel);
    main.await_end();
    let (mut main, mut channel) = primary.open();
    channel.say(format!("+FULLRESYNC {ID} 200\r\n$EOF:{MARK}\r\n"));
    main.say(set("then"));
    channel.say([&data, MARK.as_bytes()].concat());
    let mut client = replica.client();
    eventually("it is up", || client.info("master_link_status") == "up");
    eventually("all is there", || {
        render(&client.call(&["EXISTS", "base", "then"])) == "(integer) 2"
    });
    check(&mut client, "> EXISTS never own\n(integer) 0");
}

#[test]
fn a_promotion_ends_both_connections() {
    let primary = FakePrimary::start();
    let replica = Server::start(&["--save", ""]);
    follow(&replica, primary.port());
    let (mut main, mut channel) = primary.open();
    channel.say(format!("+FULLRESYNC {ID} 100\r\n$EOF:{MARK}\r\nREDIS0010"));
    main.say(set("never"));
    check(
        &mut replica.client(),
        "> REPLICAOF NO ONE\nOK\n> SET k v\nOK\n> EXISTS never\n(integer) 0",
    );
    main.await_end();
    channel.await_end();
}

/// No replica takes the data of another.
#[test]
fn a_connection_is_named_by_who_it_is_for_or_not_at_all() {
    let switch = ["--dual-channel-replication-enabled", "yes"];
    let hasty = ["--repl-diskless-sync-delay", "3600"];
    let ours = Server::start(&[switch, hasty].concat());
    let theirs = Oracle::Valkey91.start(&[switch, hasty].concat());
    let ask = |client: &mut Client, line: &str| {
        render(&client.call(&line.split(' ').collect::<Vec<_>>()))
    };
    for server in [&ours, &theirs] {
        let mut client = server.client();
        for (line, reply) in [
            ("REPLCONF set-rdb-client-id 12345", "(error) ERR Unrecognized RDB client id 12345"),
            ("REPLCONF set-rdb-client-id x", "(error) ERR value is not an integer or out of range"),
            ("REPLCONF capa eof capa psync2 capa dual-channel version 9.1.0", "OK"),
            ("PSYNC ? -1", "DUALCHANNELSYNC"),
            ("PSYNC ? -1", "DUALCHANNELSYNC"),
        ] {
            assert_eq!(ask(&mut client, line), reply, "{line}");
        }
        let own = client.id();
        let line = format!("REPLCONF set-rdb-client-id {own}");
        let reply = format!("(error) ERR Unrecognized RDB client id {own}");
        assert_eq!(ask(&mut client, &line), reply);
    }
    // One that waits for its data in Redis' way is not named by another.
    let mut main = ours.client();
    let mut other = ours.client();
    let capable = "REPLCONF capa eof capa psync2 capa rdb-channel-repl";
    assert_eq!(ask(&mut main, capable), "OK");
    let number = main.id();
    assert_eq!(ask(&mut main, "PSYNC ? -1"), format!("RDBCHANNELSYNC {number}"));
    let name = format!("REPLCONF rdb-channel 1 main-ch-client-id {number}");
    assert_eq!(ask(&mut other, &name), "OK");
    other.send(&["PSYNC", "?", "-1"]);
    let mut third = ours.client();
    let reply = format!("(error) ERR Unrecognized RDB client id: {number}");
    eventually("it has one", || ask(&mut third, &name) == reply);
    drop(main);
    // Signs of life come until then.
    other.receive_to_close();
    assert_eq!(ask(&mut third, &name), reply, "it is gone");
}

/// A replica that stops while its data come is one that the primary's limits do not close: what it
/// lacks of the stream is kept for it, and that is not charged to it for ever.
#[test]
fn a_place_that_was_kept_is_given_back() {
    let switch = ["--dual-channel-replication-enabled", "yes"];
    let limits = ["--client-output-buffer-limit", "replica 3mb 0 0", "--repl-backlog-size", "64kb"];
    let primary = NodeKind::Apus.start(&[&switch[..], &limits].concat());
    let replica = NodeKind::Genuine(Oracle::Valkey91).start(&switch);
    tests::samples::fill(&mut primary.client(), false);
    follow(&replica, primary.port());
    let value = "v".repeat(10_000);
    let mut client = primary.client();
    for number in 0..100 {
        client.call(&["SET", &format!("k:{number}"), &value]);
    }
    await_replica(&primary, &replica);
    for number in 0..1000 {
        client.call(&["SET", &format!("k:{}", number % 100), &value]);
    }
    await_replica(&primary, &replica);
    assert_eq!(client.info("sync_full"), "1");
    assert_same(&primary, &replica, "it was never closed");
}
