//! Wall-clock jumps of an hour: deadlines stay the moments that they are, what has none due stays,
//! and what is done every so often goes on.

use proto::value::Value;
use tests::render::render;
use tests::server::eventually;
use tests::{Client, Server, check};

const FORWARD: &str = "> DEBUG JUMP-CLOCK 3600000\nOK";
const BACK: &str = "> DEBUG JUMP-CLOCK -3600000\nOK";

fn start(arguments: &[&str]) -> Server {
    Server::start(&[&["--enable-debug-command", "local"], arguments].concat())
}

fn number(client: &mut Client, words: &[&str]) -> i64 {
    let reply = client.call(words);
    let Value::Integer(number) = reply else { panic!("{words:?}: {reply:?}") };
    number
}

/// What has two hours, half an hour and all time to live; when each ends.
fn fill(client: &mut Client) -> Vec<i64> {
    let script = "
        > SET long v EX 7200
        OK
        > SET short v EX 1800
        OK
        > SET forever v
        OK
        > HSET hash f v
        (integer) 1
        > HEXPIRE hash 7200 FIELDS 1 f
        1) (integer) 1";
    check(client, script);
    deadlines(client)
}

/// When what has two hours to live ends.
fn deadlines(client: &mut Client) -> Vec<i64> {
    let of_field = client.call(&["HPEXPIRETIME", "hash", "FIELDS", "1", "f"]);
    let Value::Array(of_field) = of_field else { panic!("HPEXPIRETIME: {of_field:?}") };
    let [Value::Integer(of_field)] = of_field[..] else { panic!("{of_field:?}") };
    vec![number(client, &["PEXPIRETIME", "long"]), of_field]
}

/// How long the key has to live in seconds, if the test takes less than ten minutes.
fn check_left(client: &mut Client, seconds: i64) {
    let left = number(client, &["TTL", "long"]);
    assert!((seconds - 600..=seconds).contains(&left), "{left} of {seconds} seconds");
}

/// After a jump forward: what has two hours is there, and what had half an hour is not.
const AN_HOUR_LATER: &str = "
    > MGET long short forever
    1) \"v\"
    2) (nil)
    3) \"v\"
    > HGETALL hash
    1) \"f\"
    2) \"v\"";

#[test]
fn deadlines_are_moments_however_the_clock_is_set() {
    for arguments in [&["--appendonly", "yes", "--appendfsync", "always"][..], &["--save", "60 1"]]
    {
        let mut server = start(arguments);
        let mut client = server.client();
        let deadlines_before = fill(&mut client);
        check(&mut client, FORWARD);
        check(&mut client, AN_HOUR_LATER);
        assert_eq!(deadlines(&mut client), deadlines_before);
        check_left(&mut client, 3600);
        check(&mut client, "> SET later v EX 1800\nOK");
        check(&mut client, BACK);
        // What is gone stays gone, and what is there is there longer.
        check(&mut client, AN_HOUR_LATER);
        check_left(&mut client, 7200);
        let left = number(&mut client, &["TTL", "later"]);
        assert!((4800..=5400).contains(&left), "{left} of 5400 seconds");
        // The new process has the true time: to it the old one's clock had jumped.
        check(&mut client, FORWARD);
        if arguments.contains(&"always") {
            server.kill();
        } else {
            client.send(&["SHUTDOWN", "SAVE"]);
            assert_eq!(client.receive_to_close(), b"");
            eventually("it ends", || Client::try_connect(server.port()).is_err());
            server.kill();
        }
        server.restart();
        let mut client = server.client();
        check(&mut client, AN_HOUR_LATER);
        assert_eq!(deadlines(&mut client), deadlines_before);
        check_left(&mut client, 7200);
    }
}

#[test]
fn what_is_due_later_comes_though_the_clock_was_set_back() {
    let server = start(&["--appendonly", "yes", "--appendfsync", "everysec", "--save", "1 1"]);
    let mut client = server.client();
    check(&mut client, BACK);
    check(&mut client, "> SET k v\nOK\n> SET passing v PX 100\nOK");
    // The log is synced, a point of `save` is reached, and the key expires by itself.
    assert_eq!(render(&client.call(&["WAITAOF", "1", "0", "0"])), "1) (integer) 1\n2) (integer) 0");
    eventually("it saves by itself", || client.info("rdb_saves") != "0");
    eventually("the key expires", || number(&mut client, &["DBSIZE"]) == 1);
    check(&mut client, "> BLPOP nothing 0.1\n(nil)");
    check(&mut client, BACK);
    check(&mut client, "> SET k w\nOK");
    assert_eq!(render(&client.call(&["WAITAOF", "1", "0", "0"])), "1) (integer) 1\n2) (integer) 0");
    let saves = client.info("rdb_saves");
    eventually("it saves once more", || client.info("rdb_saves") != saves);
}
