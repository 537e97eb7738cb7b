//! What a primary says to a replica, byte by byte: the handshake, PSYNC, both ways of framing a
//! snapshot, and when the stream begins.

use std::time::Duration;

use proto::value::Value;
use tests::peer::Peer;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server, check};

const PRIMARY: &[&str] = &["--repl-diskless-sync-delay", "0", "--save", ""];

/// A time in which what should not come would have come.
const MOMENT: Duration = Duration::from_millis(300);

/// A replica that has all there is and hears what comes.
fn attach(primary: &Server) -> (Peer, String, i64) {
    let mut peer = Peer::connect(primary.port());
    let transfer = peer.sync("capa eof capa psync2");
    peer.acknowledge(transfer.offset);
    let mut client = primary.client();
    eventually("it is online", || is_online(&mut client));
    (peer, transfer.id, transfer.offset)
}

fn is_online(client: &mut Client) -> bool {
    render(&client.call(&["INFO", "replication"])).contains("state=online")
}

#[test]
fn r10_01_a_handshake_in_one_packet_is_answered_line_by_line() {
    let primary = Server::start(PRIMARY);
    let mut peer = Peer::connect(primary.port());
    peer.say(
        "PING\r\nREPLCONF listening-port 7000\r\nREPLCONF ip-address 10.0.0.1\r\n\
         REPLCONF capa eof capa psync2 capa nonsense\r\nREPLCONF nonsense 1\r\n\
         REPLCONF uuid 7d444840-9dc0-11d1-b245-5ffdce74fad2\r\nREPLCONF listening-port 7001\r\n",
    );
    let lines: Vec<String> = (0..7).map(|_| peer.line()).collect();
    assert_eq!(
        lines,
        [
            "+PONG",
            "+OK",
            "+OK",
            "+OK",
            "-ERR Unrecognized REPLCONF option: nonsense",
            "-ERR Unrecognized REPLCONF option: uuid",
            "+OK",
        ]
    );
    peer.tell("PSYNC ? -1");
    assert_eq!(peer.transfer().header.len(), "$EOF:".len() + 40);
    let row = primary.client().info("slave0");
    assert!(row.starts_with("ip=10.0.0.1,port=7001,"), "{row}");
}

#[test]
fn r10_02_psync_behind_a_reply_that_has_not_left_is_refused() {
    let primary = Server::start(PRIMARY);
    let mut client = primary.client();
    client.send_raw(b"PING\r\nPSYNC ? -1\r\nPING\r\n");
    assert_eq!(render(&client.receive()), "PONG");
    let refused = render(&client.receive());
    assert_eq!(refused, "(error) ERR SYNC and PSYNC are invalid with pending output");
    assert_eq!(render(&client.receive()), "PONG");
    assert_eq!(client.info("connected_slaves"), "0");
}

#[test]
fn r10_03_a_second_psync_on_a_link_says_nothing() {
    let primary = Server::start(PRIMARY);
    let (mut peer, id, offset) = attach(&primary);
    let next = offset + 1;
    peer.say(format!("PSYNC ? -1\r\nPSYNC {id} {next}\r\nSYNC\r\n"));
    check(&mut primary.client(), "> SET k v\nOK");
    assert_eq!(peer.until("SET"), ["SET", "k", "v"]);
    let mut client = primary.client();
    assert_eq!(client.info("sync_full"), "1");
    assert_eq!(client.info("connected_slaves"), "1");
}

#[test]
fn r10_04_psync_goes_on_from_any_byte_that_is_kept_and_from_no_other() {
    let primary = Server::start(&[PRIMARY, &["--repl-ping-replica-period", "3600"]].concat());
    let (mut witness, id, cut) = attach(&primary);
    let mut client = primary.client();
    check(&mut client, "> SELECT 3\nOK\n> SET k v\nOK\n> APPEND k w\n(integer) 2");
    let end = client.figure("master_repl_offset");
    let first = client.figure("repl_backlog_first_byte_offset");
    let whole = witness.exactly(usize::try_from(end - cut).expect("it only grows"));
    let ask = |offset: i64| {
        let mut peer = Peer::connect(primary.port());
        assert_eq!(peer.ask("REPLCONF capa eof capa psync2"), "+OK");
        let answer = peer.ask(&format!("PSYNC {id} {offset}"));
        (peer, answer)
    };
    let (mut next, answer) = ask(end + 1);
    assert_eq!(answer, format!("+CONTINUE {id}"));
    assert!(next.is_silent(MOMENT), "there is nothing behind the end");
    // From each byte, in the midst of commands, too.
    for from in (first..=end).step_by(7) {
        let (mut peer, answer) = ask(from);
        assert_eq!(answer, format!("+CONTINUE {id}"), "{from}");
        let skipped = usize::try_from(from - cut - 1).expect("no byte is before the cut");
        assert_eq!(peer.exactly(whole.len() - skipped), whole[skipped..], "{from}");
    }
    for unknown in [end + 2, first - 1, 0, -1] {
        let (_, answer) = ask(unknown);
        assert!(answer.starts_with(&format!("+FULLRESYNC {id} ")), "{unknown}: {answer}");
    }
    let mut other = Peer::connect(primary.port());
    let answer = other.ask(&format!("PSYNC {} {}", "0".repeat(40), end + 1));
    assert!(answer.starts_with("+FULLRESYNC "), "{answer}");
    // Ids have no case.
    let mut loud = Peer::connect(primary.port());
    assert_eq!(loud.ask(&format!("PSYNC {} {}", id.to_uppercase(), end + 1)), "+CONTINUE");
}

#[test]
fn r10_05_without_psync2_the_answer_is_bare() {
    let primary = Server::start(PRIMARY);
    let (_witness, id, offset) = attach(&primary);
    let psync = format!("PSYNC {id} {}", offset + 1);
    let mut peer = Peer::connect(primary.port());
    assert_eq!(peer.ask(&psync), "+CONTINUE");
    let mut peer = Peer::connect(primary.port());
    assert_eq!(peer.ask("REPLCONF capa psync2"), "+OK");
    assert_eq!(peer.ask(&psync), format!("+CONTINUE {id}"));
}

#[test]
fn r10_06_without_eof_the_length_comes_first() {
    let primary = Server::start(PRIMARY);
    check(&mut primary.client(), "> SET key-of-this-test v\nOK");
    let mut peer = Peer::connect(primary.port());
    let transfer = peer.sync("capa psync2");
    assert_eq!(transfer.header, format!("${}", transfer.bytes.len()));
    assert!(transfer.bytes.starts_with(b"REDIS00"));
    let has_key = transfer.bytes.windows(16).any(|it| it == b"key-of-this-test");
    assert!(has_key, "{}", transfer.bytes.escape_ascii());
    // The stream follows at once, without an acknowledgement.
    check(&mut primary.client(), "> SET k v\nOK");
    assert_eq!(peer.until("SET"), ["SET", "k", "v"]);
}

#[test]
fn r10_07_replicas_within_the_delay_are_given_the_same_cut_and_mark() {
    let delay = ["--repl-diskless-sync-delay", "3600", "--repl-diskless-sync-max-replicas", "3"];
    let primary = Server::start(&[PRIMARY, &delay].concat());
    check(&mut primary.client(), "> SET k v\nOK");
    let mut peers = [(); 3].map(|()| Peer::connect(primary.port()));
    for peer in &mut peers {
        assert_eq!(peer.ask("REPLCONF capa eof capa psync2"), "+OK");
        peer.tell("PSYNC ? -1");
        check(&mut primary.client(), "> APPEND k w\n(integer) 2\n> SET k v\nOK");
    }
    let [one, other, third] = peers.each_mut().map(Peer::transfer);
    for it in [other, third] {
        let told = (it.id, it.offset, it.header, it.bytes);
        assert!(told == (one.id.clone(), one.offset, one.header.clone(), one.bytes.clone()));
    }
}

/// Whatever a primary writes meanwhile: a replica that loads from its disk finds the end of the
/// snapshot by the last bytes that came.
#[test]
fn r10_09_nothing_comes_behind_the_mark_before_an_acknowledgement() {
    let primary = Server::start(PRIMARY);
    check(&mut primary.client(), "> SET before v\nOK");
    let mut peer = Peer::connect(primary.port());
    let transfer = peer.sync("capa eof capa psync2");
    let mut client = primary.client();
    for number in 0..100 {
        client.call(&["SET", "behind", &number.to_string()]);
    }
    assert!(peer.is_silent(MOMENT), "it has not said that it is ready");
    peer.acknowledge(transfer.offset);
    assert_eq!(peer.until("SET"), ["SET", "behind", "0"]);
    assert_eq!(peer.until("SET"), ["SET", "behind", "1"]);
}

#[test]
fn r10_10_one_acknowledgement_right_behind_the_mark_is_enough() {
    let primary = Server::start(PRIMARY);
    check(&mut primary.client(), "> SET before v\nOK");
    for number in 0..20 {
        let mut peer = Peer::connect(primary.port());
        let transfer = peer.sync("capa eof capa psync2");
        std::thread::sleep(Duration::from_millis(number % 3));
        peer.acknowledge(transfer.offset);
        check(&mut primary.client(), "> SET behind v\nOK");
        assert_eq!(peer.until("SET"), ["SET", "behind", "v"]);
    }
}

#[test]
fn r10_27_wait_counts_who_acknowledges_and_blocks_for_who_does_not() {
    let primary = Server::start(PRIMARY);
    let (mut peer, ..) = attach(&primary);
    let mut client = primary.client();
    // A client that has written nothing is answered by how many replicas are there.
    check(&mut primary.client(), "> WAIT 1 0\n(integer) 1\n> WAIT 5 1\n(integer) 1");
    check(&mut client, "> SET k v\nOK\n> WAIT 1 50\n(integer) 0");
    check(&mut client, "> MULTI\nOK\n> SET k w\nQUEUED\n> WAIT 1 0\nQUEUED");
    assert_eq!(render(&client.call(&["EXEC"])), "1) OK\n2) (integer) 0");
    client.send(&["WAIT", "1", "0"]);
    assert_eq!(peer.until("GETACK")[0].to_lowercase(), "replconf");
    assert!(client.is_silent());
    let mut other = primary.client();
    let end = other.figure("master_repl_offset");
    // What is short of the write does not do; nor does less than was acknowledged once.
    peer.acknowledge(1);
    assert!(client.is_silent());
    peer.acknowledge(end);
    assert_eq!(client.receive(), Value::Integer(1));
    peer.acknowledge(2);
    check(&mut client, "> WAIT 1 0\n(integer) 1");
    // CLIENT UNBLOCK is as the end of its time.
    check(&mut client, "> SET k x\nOK");
    let id = client.id();
    client.send(&["WAIT", "1", "0"]);
    eventually("it waits", || other.info("blocked_clients") == "1");
    assert_eq!(other.call(&["CLIENT", "UNBLOCK", &id]), Value::Integer(1));
    assert_eq!(client.receive(), Value::Integer(0));
}

#[test]
fn r10_34_a_slow_reader_is_closed_by_its_limits_while_it_is_sent_a_snapshot() {
    let limits = ["--client-output-buffer-limit", "replica 4mb 0 0"];
    let mut primary = Server::start(&[PRIMARY, &limits].concat());
    let mut client = primary.client();
    let text = "v".repeat(1 << 20);
    for number in 0..20 {
        client.call(&["SET", &format!("key:{number}"), &text]);
    }
    let (mut other, ..) = attach(&primary);
    let mut slow = Peer::connect(primary.port());
    assert_eq!(slow.ask("REPLCONF capa eof capa psync2"), "+OK");
    slow.tell("PSYNC ? -1");
    assert!(slow.line().starts_with("+FULLRESYNC "), "it begins");
    // The one that reads gets all; the slow one has its socket full and more than its limit behind.
    for number in 0..8 {
        client.call(&["SET", "stream", &format!("{number}{text}")]);
        other.until("SET");
    }
    primary.wait_for_log("scheduled to be closed ASAP for overcoming of output buffer");
    assert!(slow.is_closed());
    eventually("it is gone", || client.info("connected_slaves") == "1");
    assert_eq!(client.info("client_output_buffer_limit_disconnections"), "1");
    check(&mut client, "> SET last v\nOK");
    assert_eq!(other.until("last"), ["SET", "last", "v"]);
}
