//! Requests that are long, and what comes behind them: whatever waits meanwhile, each is executed
//! in its turn as it was sent.

use proto::value::Value;
use tests::client::{encode, field};
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Server, check};

/// Requests of every length, several of which are longer than the input of a session that waits,
/// with their replies.
fn requests() -> Vec<(Vec<Vec<u8>>, Value)> {
    let words = |line: &str| line.split(' ').map(|word| word.as_bytes().to_vec()).collect();
    let bulk = |bytes: &[u8]| Value::Bulk(bytes.to_vec());
    let long = |seed: usize, length: usize| -> Vec<u8> {
        (0..length).map(|index| (index * 31 / 7 + seed) as u8).collect()
    };
    let mut all: Vec<(Vec<Vec<u8>>, Value)> = Vec::new();
    for _ in 0..70 {
        all.push((words("PING"), Value::Simple(b"PONG".to_vec())));
    }
    for (number, length) in [3_000_000, 100, 1 << 20, 2_500_000, 0, 300_000].into_iter().enumerate()
    {
        let value = long(number, length);
        let mut set: Vec<Vec<u8>> = words("SET k");
        set.push(value.clone());
        if number % 2 == 0 {
            set.extend([b"EX".to_vec(), b"100".to_vec()]);
        }
        all.push((set, Value::Simple(b"OK".to_vec())));
        all.push((words("GET k"), bulk(&value)));
    }
    let pairs = (0..60_000).flat_map(|number| [format!("k:{number}"), format!("v:{number}")]);
    let mset = words("MSET").into_iter().chain(pairs.map(String::into_bytes)).collect();
    all.push((mset, Value::Simple(b"OK".to_vec())));
    all.push((words("GET k:59999"), bulk(b"v:59999")));
    let echo = long(9, 1_200_000);
    all.push((vec![b"ECHO".to_vec(), echo.clone()], bulk(&echo)));
    all.push((words("GETRANGE k -3 -1"), bulk(&long(5, 300_000)[299_997..])));
    all
}

/// Sends all of that behind a request that waits.
fn send_behind_a_wait(client: &mut Client) -> usize {
    client.send(&["BLPOP", "list", "0"]);
    let bytes: Vec<u8> = requests().iter().flat_map(|(request, _)| encode(request)).collect();
    client.send_raw(&bytes);
    bytes.len()
}

fn receive_all(client: &mut Client) {
    for (request, reply) in requests() {
        let name = String::from_utf8_lossy(&request[0]).into_owned();
        assert!(client.receive() == reply, "{name} of {} words", request.len());
    }
}

#[test]
fn what_comes_behind_a_request_that_waits_is_executed_in_order_however_long_it_is() {
    let server = Server::start(&["--worker-threads", "2", "--save", ""]);
    let mut admin = server.client();
    for (moves, ends) in [(false, false), (true, false), (false, true), (true, true)] {
        let mut client = server.client();
        let id = client.id();
        let sent = send_behind_a_wait(&mut client);
        eventually("all has come", || {
            let line = render(&admin.call(&["CLIENT", "LIST", "ID", &id]));
            field(&line, "qbuf") == sent.to_string()
        });
        if moves {
            for workers in ["1", "2"] {
                check(&mut admin, &format!("> CONFIG SET worker-threads {workers}\nOK"));
            }
        }
        check(&mut admin, "> LPUSH list x\n(integer) 1");
        assert!(render(&client.receive()).contains("\"x\""), "it was served");
        if ends {
            // What was sent before is executed.
            client.end_sending();
        }
        receive_all(&mut client);
        if ends {
            assert!(client.is_closed());
        } else {
            assert_eq!(render(&client.call(&["PING"])), "PONG");
        }
    }
}

#[test]
fn a_long_value_that_stays_where_it_was_read_is_like_any_other() {
    let server = Server::start(&["--worker-threads", "1", "--save", "", "--appendonly", "yes"]);
    let mut client = server.client();
    let mut value: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    client.call(&[&b"SET"[..], b"k", &value]);
    check(&mut client, "> COPY k copy\n(integer) 1\n> SET other x\nOK");
    let dumped = client.call(&["DUMP", "k"]);
    for (offset, piece) in [(0, "begin"), (1_000_000, "middle"), (2_999_999, "end")] {
        value.resize(value.len().max(offset + piece.len()), 0);
        value[offset..offset + piece.len()].copy_from_slice(piece.as_bytes());
        client.call(&["SETRANGE", "k", &offset.to_string(), piece]);
    }
    value.extend_from_slice(b"appended");
    client.call(&["APPEND", "k", "appended"]);
    assert!(client.call(&["GET", "k"]) == Value::Bulk(value.clone()));
    assert!(client.call(&["DUMP", "copy"]) == dumped, "its copy is as it was");
    check(&mut client, "> BITCOUNT copy 0 0\n(integer) 0\n> GETRANGE copy 1 1\n\"\\x01\"");
    check(&mut client, "> DEBUG RELOAD\n~ *");
    check(&mut client, "> STRLEN k\n(integer) 3000010");
    assert!(client.call(&["GET", "k"]) == Value::Bulk(value), "it was saved so");
    check(&mut client, "> DEL k copy\n(integer) 2");
}

/// The client's machine keeps what comes behind a request that waits for a key or another thread:
/// the server would hold it for nothing.
#[test]
fn little_is_read_behind_a_request_whose_wait_ends_by_itself() {
    const PIECE: usize = 1 << 20;
    let own = ["--worker-threads", "1", "--busy-reply-threshold", "600000", "--save", ""];
    let server = Server::start(&own);
    let (mut holder, mut admin, mut client) = (server.client(), server.client(), server.client());
    let hold = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";
    holder.send(&["EVAL", hold, "1", "held"]);
    eventually("the script runs", || admin.info("used_memory_scripts_eval") != "0");
    let id = client.id();
    std::thread::scope(|scope| {
        let sender = scope.spawn(|| {
            client.send(&["GET", "held"]);
            for _ in 0..24 {
                client.send(&["SET", "k", &"x".repeat(PIECE)]);
            }
            client.receive();
            (0..24).for_each(|_| _ = client.receive());
        });
        let mut input = || {
            let line = text(&admin.call(&["CLIENT", "LIST", "ID", &id]));
            field(&line, "qbuf").parse::<usize>().expect("a number")
        };
        eventually("what may be read is read", || input() >= PIECE);
        // Each look is a turn of the only worker, in which it would read on.
        assert!((0..200).all(|_| input() < 3 * PIECE), "{} bytes", input());
        admin.call(&["CONFIG", "SET", "maxclients", "4321"]);
        sender.join().expect("all is answered");
    });
}
