//! What others hold for long: a client that waits for it is told BUSY in the end, control commands
//! go on, and INFO tells how long it was held.

use std::time::Duration;

use proto::value::Value;
use tests::render::render;
use tests::samples::{SLOW_THAT_HOLDS, hold_for_good, slow_pair};
use tests::server::eventually;
use tests::{Arrival, Client, Oracle, Server, check};

const BUSY: &str = "(error) BUSY Redis is busy running a long command.";

fn start(arguments: &[&str]) -> Server {
    let common = ["--worker-threads", "1", "--enable-debug-command", "yes"];
    Server::start(&[&common, arguments].concat())
}

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

/// A number of INFO; behind the name may follow more of the line up to the number.
fn number(client: &mut Client, name: &str) -> u64 {
    let info = ask(client, "INFO everything");
    let (_, after) = info.split_once(name).unwrap_or_else(|| panic!("{name} in {info}"));
    let end = after.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(after.len());
    after[..end].parse().unwrap_or_else(|_| panic!("{name} in {info}"))
}

/// Begins a stop of the world that outlasts the test's questions.
fn stop_world(server: &Server, seconds: &str) -> (Client, Client) {
    let (mut stopper, mut client) = (server.client(), server.client());
    stopper.send(&["DEBUG", "STOP-WORLD", seconds]);
    eventually("the world is stopped", || ask(&mut client, "GET k") == BUSY);
    (stopper, client)
}

#[test]
fn a_client_that_waits_too_long_for_the_world_is_told_busy() {
    let server = start(&["--lua-time-limit", "50"]);
    let (mut stopper, mut client) = stop_world(&server, "3");
    for line in ["SET k v", "MGET a b", "DEL k", "FLUSHALL", "RANDOMKEY"] {
        assert_eq!(ask(&mut client, line), BUSY, "{line}");
    }
    client.send(&["GET", "k"]);
    client.send(&["ECHO", "in order"]);
    assert_eq!(render(&client.receive()), BUSY);
    assert_eq!(render(&client.receive()), "\"in order\"");
    assert!(number(&mut client, "errorstat_BUSY:count=") >= 6);
    assert_eq!(
        number(&mut client, "cmdstat_flushall:calls=0,usec=0,usec_per_call=0.00,rejected_calls="),
        1
    );
    assert!(stopper.is_silent(), "the world stands still");
    assert_eq!(render(&stopper.receive()), "OK");
    check(&mut client, "> GET k\n(nil)\n> SET k v\nOK\n> FLUSHALL\nOK");
}

#[test]
fn control_commands_go_on_while_the_world_stands() {
    let server = start(&["--busy-reply-threshold", "20"]);
    let (mut stopper, mut client) = stop_world(&server, "3");
    let script = "
        > PING
        PONG
        > CONFIG GET busy-reply-threshold
        1) \"busy-reply-threshold\"
        2) \"20\"
        > CLIENT SETNAME me
        OK
        > SELECT 1
        OK
        > CONFIG SET busy-reply-threshold 0
        OK
    ";
    check(&mut client, script);
    let mut newcomer = server.client();
    assert_eq!(ask(&mut newcomer, "PING"), "PONG");
    assert!(stopper.is_silent());
    // Without a threshold one waits as long as it takes.
    newcomer.send(&["GET", "k"]);
    assert_eq!(render(&stopper.receive()), "OK");
    assert_eq!(render(&newcomer.receive()), "(nil)");
}

#[test]
fn a_client_that_waits_too_long_for_a_key_is_told_busy_and_no_other() {
    let server = start(&["--busy-reply-threshold", "20"]);
    let (mut slow, mut rival, mut other) = (server.client(), server.client(), server.client());
    slow_pair(&mut other, "a", "b", 10_000);
    slow.send(&SLOW_THAT_HOLDS);
    eventually("the command holds its keys", || ask(&mut rival, "STRLEN a") == BUSY);
    assert_eq!(ask(&mut other, "INCR counter"), "(integer) 1");
    assert_eq!(ask(&mut rival, "MGET counter b"), BUSY);
    assert_eq!(ask(&mut rival, "FLUSHALL"), BUSY, "it would have to wait for that command");
    assert_eq!(ask(&mut rival, "LCS counter none LEN"), "(integer) 0");
    assert!(slow.is_silent());
    assert!(matches!(slow.receive(), Value::Integer(_)));
    assert_eq!(ask(&mut rival, "STRLEN a"), "(integer) 10000");
}

#[test]
fn long_holds_and_stops_stand_in_info_until_they_are_reset() {
    // A server that saves by itself does so after FLUSHALL, which stops the world once more.
    let server = start(&["--save", ""]);
    let mut client = server.client();
    slow_pair(&mut client, "a", "b", 5_000);
    assert!(matches!(client.call(&SLOW_THAT_HOLDS), Value::Integer(_)));
    let took = number(&mut client, "cmdstat_lcs:calls=1,usec=");
    assert!(took > 1000, "{took}");
    assert!(number(&mut client, "longest_lock_hold_us:") >= took);
    assert!(number(&mut client, "lock_holds_from_1_ms:") >= 1);
    check(&mut client, "> DEBUG STOP-WORLD 0.05\nOK");
    for name in ["longest_world_stop_us:", "last_world_stop_us:"] {
        assert!(number(&mut client, name) >= 50_000, "{name}");
    }
    assert_eq!(number(&mut client, "world_stops:"), 1);
    check(&mut client, "> FLUSHALL\nOK");
    assert_eq!(number(&mut client, "world_stops:"), 2);
    assert!(number(&mut client, "longest_world_stop_us:") >= 50_000);
    check(&mut client, "> CONFIG RESETSTAT\nOK");
    for name in ["longest_world_stop_us:", "last_world_stop_us:", "world_stops:"] {
        assert_eq!(number(&mut client, name), 0, "{name}");
    }
}

/// What ours differs from: the real servers refuse PING and INFO too, in words about scripts.
#[test]
fn the_real_servers_refuse_control_commands_too() {
    for oracle in Oracle::ALL {
        let server = oracle.start(&["--lua-time-limit", "50"]);
        let (mut stopper, mut client) = (server.client(), server.client());
        stopper.send(&["EVAL", "while true do end", "0"]);
        let name = if oracle == Oracle::Valkey91 { "Valkey" } else { "Redis" };
        let busy = format!(
            "(error) BUSY {name} is busy running a script. You can only call SCRIPT KILL or \
             SHUTDOWN NOSAVE."
        );
        eventually("the script is found to take long", || ask(&mut client, "GET k") == busy);
        for line in ["PING", "INFO", "CONFIG GET port", "CLIENT LIST", "FLUSHALL", "COMMAND COUNT"]
        {
            assert_eq!(ask(&mut client, line), busy, "{oracle:?} {line}");
        }
        check(&mut client, "> RESET\nRESET\n> SCRIPT KILL\nOK");
    }
}

/// As in Redis: without a threshold nobody is busy, whatever the scope, and TIME stands still.
#[test]
fn without_a_threshold_no_script_is_ever_long() {
    const TIMES: &str = "local before = redis.call('TIME')
        for turn = 1, 3000000 do end
        local now = redis.call('TIME')
        return before[1] == now[1] and before[2] == now[2]";
    let arguments = ["--busy-reply-threshold", "0"];
    for server in [
        start(&[&arguments[..], &["--busy-scope", "server"]].concat()),
        Oracle::Redis82.start(&arguments),
    ] {
        let mut client = server.client();
        check(
            &mut client,
            "> CONFIG SET busy-reply-threshold -1\n~ (error) ERR CONFIG SET failed*\n",
        );
        assert_eq!(render(&client.call(&["EVAL", TIMES, "0"])), "(integer) 1");
        assert_eq!(ask(&mut client, "CONFIG SET busy-reply-threshold 1"), "OK");
        assert_eq!(render(&client.call(&["EVAL", TIMES, "0"])), "(nil)");
    }
    let server = start(&[&arguments[..], &["--busy-scope", "server"]].concat());
    let (mut looper, mut other) = (server.client(), server.client());
    looper.send(&["EVAL", "while true do end", "1", "k"]);
    let mut turns = 0;
    while ask(&mut other, "SCRIPT KILL") != "OK" {
        assert_eq!(ask(&mut other, "SET other v"), "OK");
        turns += 1;
    }
    let reply = render(&looper.receive());
    assert!(reply.contains("Script killed by user"), "{reply} after {turns} turns");
    hold_for_good(&mut looper, &mut other, "k");
    for _ in 0..100 {
        assert_eq!(ask(&mut other, "SET other v"), "OK");
    }
    assert!(looper.is_silent());
}

#[test]
fn stop_world_is_for_clients_that_may_debug() {
    let server = Server::start(&[]);
    let reply = ask(&mut server.client(), "DEBUG STOP-WORLD 1");
    assert!(reply.starts_with("(error) ERR DEBUG command not allowed"), "{reply}");
}

#[test]
fn more_long_scripts_than_threads_meet_at_a_key() {
    // More than there are threads for heavy work.
    const SCRIPTS: usize = 40;
    let server = start(&["--busy-reply-threshold", "0"]);
    let spin = "for turn = 1, 5000000 do end return redis.call('INCR', 'met')";
    let mut clients: Vec<Client> = (0..=SCRIPTS).map(|_| server.client()).collect();
    let (last, first) = clients.split_last_mut().expect("there is at least one");
    for (number, client) in first.iter_mut().enumerate() {
        client.send(&["EVAL", spin, "1", &number.to_string()]);
    }
    // The last script has the key that the others turn out to need, and waits for a thread.
    last.send(&["EVAL", spin, "1", "met"]);
    let mut counts: Vec<String> =
        clients.iter_mut().map(|client| render(&client.receive())).collect();
    counts.sort_by_key(|count| (count.len(), count.clone()));
    let expected = (1..=SCRIPTS + 1).map(|count| format!("(integer) {count}"));
    assert_eq!(counts, expected.collect::<Vec<_>>());
}

#[test]
fn control_commands_go_on_while_no_thread_is_left_for_heavy_work() {
    // More than there are threads for it.
    const SCRIPTS: usize = 40;
    let server = start(&["--busy-reply-threshold", "20"]);
    let mut other = server.client();
    let mut clients: Vec<Client> = (0..SCRIPTS).map(|_| server.client()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&["EVAL", "while true do end", "1", &number.to_string()]);
    }
    eventually("one has moved", || ask(&mut other, "GET 0") == BUSY);
    assert_eq!(ask(&mut other, "CONFIG SET busy-reply-threshold 1000000"), "OK");
    for client in &mut clients {
        let mut reply = String::new();
        eventually("it is killed, or was told to wait", || {
            ask(&mut other, "SCRIPT KILL");
            if let Ok(Arrival::Reply(value)) = client.arrival(Duration::ZERO) {
                reply = render(&value);
            }
            !reply.is_empty()
        });
        assert!(reply == BUSY || reply.contains("Script killed by user"), "{reply}");
    }
}
