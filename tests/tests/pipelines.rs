//! Requests that come together: whatever the server does with them together, each is a command of
//! its own, answered in its turn as if it had come alone.

use proto::value::Value;
use tests::client::line;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// Commands of all sorts, none of which replies anything that depends on the moment.
const MIXED: &str = "
    SET a 1|INCR a|GET a|GET|GET a b|LPUSH a x|INCR a|NOSUCH a|APPEND a x|GET a|INCR a|STRLEN a
    SETNX a 2|GETSET a 5|SETRANGE a 3 z|GETRANGE a 0 -1|SET a 7 XX GET|SET a 8 NX|GETDEL a|GET a
    RPUSH l 1 2 3|LPUSH l 0|LLEN l|LPOP l|RPOP l 2|LRANGE l 0 -1|LPOP l|EXISTS l|LPOP l|LLEN l
    SADD s a b|SADD s b c|SISMEMBER s a|SREM s a|SCARD s|HSET h f v g w|HGET h f|HDEL h f g|HLEN h
    ZADD z 1 a 2 b|ZINCRBY z 5 a|ZSCORE z a|ZRANGE z 0 -1|ZPOPMIN z|ZREM z a|ZCARD z|TYPE z
    MULTI|SET a 9|INCR a|LPUSH a x|EXEC|GET a|MULTI|GET|SET a 10|EXEC|GET a|MULTI|INCR a|DISCARD
    SELECT 1|SET a other|GET a|INCR a|SELECT 0|GET a|MSET a 1 b 2|MGET a b c|GET a|GET b|DEL a b
    SET t v PXAT 1|GET t|SET t v EX 1000|PERSIST t|TTL t|EXPIRE t -1|GET t|EXISTS t|SET e v
    RENAME e f|EVAL 'return redis.call(\"incr\", KEYS[1])' 1 n|INCR n|GET n|WATCH n|INCR n|MULTI
    GET n|EXEC|GET n|GET x|GET x|GET x|GET x|GET x|GET x|GET x|GET x|GET x|GET x|GET x|GET x
    SET x 1|GET x|INCR x|GET x|INCR x|GET x|INCR x|GET x|INCR x|GET x|INCR x|GET x|DEL x|GET x
    OBJECT ENCODING x|GET x|PING|GET x|ECHO hello|GET x|CONFIG SET nosuch 1|CLIENT NO-TOUCH ON
    GET x|SETBIT bits 7 1|GETBIT bits 7|BITCOUNT bits|PFADD p 1 2|PFCOUNT p|GEOADD g 1 1 q|GET x";

/// Transactions of all sorts: longer than what is parsed ahead and than a batch, of one command and
/// of many, with some that are refused, run at once or end it all.
const QUEUED: &str = "
    MULTI|SET a 1|SET b 2|SET c 3|GET a|GET b|EXEC|MULTI|INCR a|INCR a b|INCR a|EXEC|GET a
    MULTI|INCR a|NOSUCH|INCR a|EXEC|GET a|MULTI|INCR a|MULTI|INCR a|WATCH a|INCR a|EXEC|GET a
    MULTI|INCR a|SAVE|INCR a|EXEC|GET a|MULTI|SET a 5|INCR a|DISCARD|GET a|MULTI|EXEC|MULTI
    SET a 1|SET a 2|SET a 3|SET a 4|SET a 5|SET a 6|SET a 7|SET a 8|SET a 9|SET a 10|SET a 11
    SET a 12|SET a 13|SET a 14|SET a 15|SET a 16|SET a 17|INCR a|INCR a|INCR a|INCR a|INCR a
    INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a|INCR a
    LPUSH l 1|LPUSH l 2|LPUSH l 3|LPUSH l 4|LPUSH l 5|LPUSH l 6|LPUSH l 7|LPUSH l 8|LPUSH l 9
    LPUSH l 1|LPUSH l 2|LPUSH l 3|LPUSH l 4|LPUSH l 5|LPUSH l 6|LPUSH l 7|LPUSH l 8|LPUSH l 9
    LPUSH l 1|LPUSH l 2|LPUSH l 3|LPUSH l 4|LPUSH l 5|LPUSH l 6|LPUSH l 7|LPUSH l 8|LPUSH l 9
    EXEC|LLEN l|MULTI|LLEN l|LPUSH a x|EVAL 'return redis.call(\"incr\", KEYS[1])' 1 a|SELECT 1
    SET a other|INCR a|SELECT 0|MSET a 1 b 2|MGET a b|UNWATCH|OBJECT ENCODING a|OBJECT NOSUCH|EXEC
    MULTI|OBJECT ENCODING a|CONFIG GET maxmemory|PING|ECHO x|EXEC|CONFIG SET maxmemory 1|MULTI
    GET a|SET a 1|GET a|SET a 1|SET a 1|EXEC|MULTI|GET a|GET a|DEL b|EXEC|CONFIG SET maxmemory 0
    WATCH a|MULTI|INCR a|INCR a|EXEC|WATCH a|INCR a|MULTI|INCR a|INCR a|EXEC|GET a|MULTI|GET a
    GET nothing|RESET|GET nothing|EXEC|GET a";

fn commands(text: &str) -> Vec<Vec<Vec<u8>>> {
    let lines = text.split(['|', '\n']).map(str::trim).filter(|line| !line.is_empty());
    let words = |line: &str| base::quote::split_arguments(line.as_bytes()).expect("well quoted");
    lines.map(words).collect()
}

/// Sends all at once, and compares what comes with what is expected.
#[track_caller]
fn exchange(client: &mut Client, expected: &[(&str, &str)]) {
    let sent: Vec<_> = expected.iter().flat_map(|(command, _)| commands(command)).collect();
    let replies = client.pipeline(&sent);
    for ((command, expected), reply) in expected.iter().zip(&replies) {
        assert_eq!(render(reply), *expected, "{command}");
    }
}

#[test]
fn what_comes_together_is_answered_as_what_comes_one_by_one() {
    compare_pieces(MIXED);
}

#[test]
fn what_comes_together_is_queued_as_what_comes_one_by_one() {
    compare_pieces(QUEUED);
}

/// Compares the replies to commands that come in pieces of several lengths with those to the same
/// commands, each sent when the one before was answered.
fn compare_pieces(text: &str) {
    let commands = commands(text);
    let (alone, together) = (Server::start(&[]), Server::start(&[]));
    let mut client = alone.client();
    let expected: Vec<Value> = commands.iter().map(|command| client.call(command)).collect();
    // In pieces of all lengths, so that whatever goes together begins and ends everywhere.
    for piece in [1, 2, 3, 5, 8, 9, 16, 17, commands.len()] {
        let mut client = together.client();
        check(&mut client, "> FLUSHALL\nOK");
        let replies = commands.chunks(piece).flat_map(|piece| client.pipeline(piece));
        for ((command, expected), reply) in commands.iter().zip(&expected).zip(replies) {
            assert_eq!(render(&reply), render(expected), "{} by {piece}", line(command));
        }
    }
}

#[test]
fn what_is_queued_together_is_shown() {
    let server = Server::start(&[]);
    let (mut client, mut other) = (server.client(), server.client());
    client.call(&["CLIENT", "SETNAME", "queues"]);
    client.pipeline(&commands("MULTI|INCR a|INCR a|GET a"));
    let shown = text(&other.call(&["CLIENT", "LIST"]));
    let shown = shown.lines().find(|line| line.contains("name=queues")).expect("it is there");
    assert!(shown.contains(" multi=3 ") && shown.contains(" cmd=get "), "{shown}");
    client.pipeline(&commands("NOSUCH|INCR a|INCR a|INCR|INCR|SAVE"));
    let counted = text(&other.call(&["INFO", "commandstats"]));
    let of_incr = counted.lines().find(|line| line.starts_with("cmdstat_incr:"));
    let of_incr = of_incr.expect("two were refused");
    assert!(of_incr.contains(":calls=0,") && of_incr.contains("rejected_calls=2"), "{of_incr}");
    exchange(
        &mut client,
        &[("EXEC", "(error) EXECABORT Transaction discarded because of previous errors.")],
    );
}

#[test]
fn a_waiter_is_served_by_the_first_push_of_those_that_come_together() {
    let server = Server::start(&[]);
    let (mut first, mut second) = (server.client(), server.client());
    first.send(&["BLPOP", "queue", "0"]);
    let mut other = server.client();
    let mut wait_for = |number: usize| {
        let line = format!("blocked_clients:{number}\r\n");
        eventually("it waits", || text(&other.call(&["INFO", "clients"])).contains(&line));
    };
    wait_for(1);
    second.send(&["BLPOP", "queue", "0"]);
    wait_for(2);
    exchange(
        &mut other,
        &[
            ("SET a 1", "OK"),
            ("RPUSH queue x", "(integer) 1"),
            ("LLEN queue", "(integer) 0"),
            ("RPUSH queue y z", "(integer) 2"),
            ("LLEN queue", "(integer) 1"),
            ("GET a", "\"1\""),
        ],
    );
    assert_eq!(render(&first.receive()), "1) \"queue\"\n2) \"x\"");
    assert_eq!(render(&second.receive()), "1) \"queue\"\n2) \"y\"");
}

#[test]
fn a_watch_is_broken_by_a_write_among_reads_and_by_no_read() {
    let server = Server::start(&[]);
    let (mut watcher, mut other) = (server.client(), server.client());
    check(&mut watcher, "> WATCH k\nOK\n> MULTI\nOK");
    exchange(&mut other, &[("GET k", "(nil)"), ("SET l 1", "OK"), ("GET l", "\"1\"")]);
    check(&mut watcher, "> EXEC\n(empty array)\n> WATCH k\nOK\n> MULTI\nOK");
    exchange(&mut other, &[("GET l", "\"1\""), ("SET k 1", "OK"), ("DEL k", "(integer) 1")]);
    check(&mut watcher, "> EXEC\n(nil)");
}

#[test]
fn events_and_messages_come_in_the_order_of_their_commands() {
    let server = Server::start(&["--notify-keyspace-events", "KEA"]);
    let mut ear = server.client();
    check(&mut ear, "> PSUBSCRIBE __keyevent@0__:*\n...");
    exchange(
        &mut server.client(),
        &[
            ("SET a 1", "OK"),
            ("INCR a", "(integer) 2"),
            ("GET a", "\"2\""),
            ("LPUSH l x", "(integer) 1"),
            ("LPOP l", "\"x\""),
            ("DEL a", "(integer) 1"),
        ],
    );
    for expected in ["set a", "incrby a", "lpush l", "lpop l", "del l", "del a"] {
        let Value::Array(parts) = ear.receive() else { panic!("a message") };
        let (channel, key) = (text(&parts[2]), text(&parts[3]));
        assert_eq!(format!("{} {key}", &channel["__keyevent@0__:".len()..]), expected);
    }
}

#[test]
fn copies_are_told_old_whoever_reads_and_writes_together() {
    let server = Server::start(&[]);
    let (mut reader, mut writer) = (server.client3(), server.client());
    check(&mut reader, "> CLIENT TRACKING ON\nOK");
    exchange(&mut reader, &[("GET a", "(nil)"), ("GET b", "(nil)"), ("GET c", "(nil)")]);
    exchange(
        &mut writer,
        &[("GET a", "(nil)"), ("SET b 1", "OK"), ("DEL c", "(integer) 0"), ("SET a 1", "OK")],
    );
    assert_eq!(render(&reader.receive()), "1> \"invalidate\"\n2> 1) \"b\"");
    assert_eq!(render(&reader.receive()), "1> \"invalidate\"\n2> 1) \"a\"");
    // In one batch each copy is told of right behind the reply that made it old.
    reader.send_raw(b"GET c\r\nSET c 1\r\nGET c\r\n");
    let replies: Vec<String> = (0..4).map(|_| render(&reader.receive())).collect();
    assert_eq!(replies, ["(nil)", "OK", "1> \"invalidate\"\n2> 1) \"c\"", "\"1\""]);
}

#[test]
fn a_key_whose_time_is_over_is_absent_and_goes_once() {
    let server = Server::start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    check(&mut client, "> DEBUG SET-ACTIVE-EXPIRE 0\nOK");
    let expired = |client: &mut Client| {
        let info = text(&client.call(&["INFO", "stats"]));
        info.lines().find_map(|line| line.strip_prefix("expired_keys:")).map(str::to_owned)
    };
    client.pipeline(&commands("SET k v PX 1|SET l v PX 1|RPUSH m x|PEXPIRE m 1"));
    eventually("its time is over", || {
        let reply = client.call(&["EVAL", "return redis.call('PTTL', KEYS[1])", "1", "m"]);
        reply == Value::Integer(-2)
    });
    let before = expired(&mut client).expect("a figure");
    exchange(
        &mut client,
        &[
            ("GET k", "(nil)"),
            ("GET k", "(nil)"),
            ("INCR k", "(integer) 1"),
            ("GET k", "\"1\""),
            ("SETNX l w", "(integer) 1"),
            ("GET l", "\"w\""),
            ("DBSIZE", "(integer) 2"),
        ],
    );
    let after = expired(&mut client).expect("a figure");
    let [before, after] = [before, after].map(|figure| figure.parse::<u64>().expect("a number"));
    assert_eq!(after - before, 2);
}

#[test]
fn each_command_is_counted_shown_and_logged() {
    let server = Server::start(&["--slowlog-log-slower-than", "0"]);
    let (mut client, mut monitor) = (server.client(), server.client());
    check(&mut monitor, "> MONITOR\nOK");
    let sent = ["SET a x", "GET a", "GET b", "INCR a", "GET a", "GET", "GET c", "GET a"];
    client.pipeline(&commands(&sent.join("|")));
    for sent in sent.iter().filter(|sent| **sent != "GET") {
        let told = text(&monitor.receive());
        let words: Vec<String> = sent.split(' ').map(|word| format!("\"{word}\"")).collect();
        assert!(told.ends_with(&words.join(" ")), "{told}: {sent}");
    }
    let info = text(&client.call(&["INFO", "commandstats"]));
    let of = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(&format!("cmdstat_{name}:")));
        let line = line.unwrap_or_else(|| panic!("no {name} in {info}"));
        ["calls=", "rejected_calls=", "failed_calls="].map(|field| {
            let rest = line.split([':', ',']).find_map(|part| part.strip_prefix(field));
            rest.expect("a figure").to_owned()
        })
    };
    assert_eq!(of("get"), ["5", "1", "0"]);
    assert_eq!(of("incr"), ["1", "0", "1"]);
    let stats = text(&client.call(&["INFO", "stats"]));
    assert!(stats.contains("keyspace_hits:3\r\n") && stats.contains("keyspace_misses:2\r\n"));
    let Value::Array(log) = client.call(&["SLOWLOG", "GET", "-1"]) else { panic!("a list") };
    let logged: Vec<String> = log
        .iter()
        .rev()
        .filter_map(|entry| match entry {
            Value::Array(parts) => Some(render(&parts[3])),
            _ => None,
        })
        .collect();
    let wanted = ["1) \"SET\"\n2) \"a\"\n3) \"x\"", "1) \"GET\"\n2) \"a\"", "1) \"GET\"\n2) \"b\""];
    let first = logged.iter().position(|entry| *entry == wanted[0]).expect("it is logged");
    assert_eq!(logged[first..first + 3], wanted);
}

#[test]
fn what_takes_no_memory_goes_on_where_there_is_none_left() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(&mut client, "> SET a 1\nOK\n> CONFIG SET maxmemory 1\nOK");
    let oom = "(error) OOM command not allowed when used memory > 'maxmemory'.";
    exchange(
        &mut client,
        &[
            ("GET a", "\"1\""),
            ("SET b 1", oom),
            ("GET b", "(nil)"),
            ("INCR a", oom),
            ("DEL a", "(integer) 1"),
            ("GET a", "(nil)"),
        ],
    );
}

#[test]
fn replies_that_nobody_wants_are_left_out_one_by_one() {
    let server = Server::start(&[]);
    let mut client = server.client();
    client.send_raw(
        b"SET a 1\r\nINCR a\r\nCLIENT REPLY SKIP\r\nINCR a\r\nINCR a\r\nCLIENT REPLY OFF\r\n\
          INCR a\r\nINCR a\r\nCLIENT REPLY ON\r\nINCR a\r\nGET a\r\n",
    );
    let replies: Vec<String> = (0..6).map(|_| render(&client.receive())).collect();
    let expected = ["OK", "(integer) 2", "(integer) 4", "OK", "(integer) 7", "\"7\""];
    assert_eq!(replies, expected);
}

/// A session lets others have their turn after 64 commands; what it has to say waits for the rest.
#[test]
fn short_replies_to_what_comes_together_leave_together() {
    const PINGS: usize = 300;
    let arguments = ["--worker-threads", "1"];
    for server in [Server::start(&arguments), Oracle::Redis82.start(&[])] {
        let (mut client, mut observer) = (server.client(), server.client());
        let mut count = || -> u64 {
            let info = text(&observer.call(&["INFO", "stats"]));
            let value = info.lines().find_map(|it| it.strip_prefix("total_writes_processed:"));
            value.expect("a field of the section").trim().parse().expect("a number")
        };
        let before = count();
        client.send_raw(&b"PING\r\n".repeat(PINGS));
        (0..PINGS).for_each(|_| assert_eq!(client.receive(), Value::Simple(b"PONG".to_vec())));
        assert_eq!(count() - before, 2, "one write to each of the two clients");
    }
}

#[test]
fn long_replies_stand_among_short_ones() {
    let server = Server::start(&[]);
    let mut client = server.client();
    let (middle, large) = ("m".repeat(5000), "l".repeat(300_000));
    client.call(&["SET", "middle", &middle]);
    client.call(&["SET", "large", &large]);
    let members: Vec<String> = (0..20_000).map(|number| format!("member:{number}")).collect();
    for members in members.chunks(1000) {
        let command: Vec<&str> =
            ["RPUSH", "list"].into_iter().chain(members.iter().map(String::as_str)).collect();
        client.call(&command);
    }
    let replies = client.pipeline(&commands(
        "GET x|GET middle|GET large|INCR n|LRANGE list 0 -1|INCR n|GET large|GET middle|INCR n|\
         GET n",
    ));
    assert_eq!(replies[1].as_bytes(), Some(middle.as_bytes()));
    assert_eq!(replies[2].as_bytes(), Some(large.as_bytes()));
    let Value::Array(listed) = &replies[4] else { panic!("a list") };
    let listed = listed.iter().map(|member| text(member));
    assert!(listed.eq(members), "all of the list");
    assert_eq!(replies[6].as_bytes(), Some(large.as_bytes()));
    assert_eq!(render(&replies[9]), "\"3\"");
}

#[test]
fn what_was_written_together_is_there_after_a_restart() {
    for fsync in ["always", "everysec"] {
        let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", fsync]);
        let mut client = server.client();
        let written = (0..500).flat_map(|number| {
            let key = format!("k{}", number % 40);
            commands(&format!(
                "SET {key} {number}|GET {key}|APPEND {key} x|INCR n|LPUSH l {number}"
            ))
        });
        let replies = client.pipeline(&written.collect::<Vec<_>>());
        assert!(replies.iter().all(|reply| !matches!(reply, Value::Error(_))));
        let asked = commands("MGET k0 k7 k39 n|LLEN l|LRANGE l 0 2|DBSIZE");
        let before = client.pipeline(&asked);
        let safe = render(&client.call(&["WAITAOF", "1", "0", "0"]));
        assert_eq!(safe, "1) (integer) 1\n2) (integer) 0");
        server.kill();
        server.restart();
        assert_eq!(server.client().pipeline(&asked), before, "{fsync}");
    }
}

/// Two clients on two workers whose requests want the same keys, in different orders.
#[test]
fn clients_that_want_the_same_keys_together_lose_nothing() {
    const ROUNDS: usize = 400;
    let server = Server::start(&["--worker-threads", "2"]);
    let rise = "INCR a|INCR b|INCR c|INCR d|GET a|INCR e|INCR f|INCR g";
    let fall = "INCR g|INCR f|INCR e|GET g|INCR d|INCR c|INCR b|INCR a";
    std::thread::scope(|scope| {
        for order in [rise, fall, rise, fall] {
            let mut client = server.client();
            scope.spawn(move || {
                let commands = commands(order);
                for _ in 0..ROUNDS {
                    client.pipeline(&commands);
                }
            });
        }
    });
    let sums = server.client().call(&["MGET", "a", "b", "c", "d", "e", "f", "g"]);
    let Value::Array(sums) = sums else { panic!("a list") };
    let expected = (4 * ROUNDS).to_string();
    assert!(sums.iter().all(|sum| text(sum) == expected), "{sums:?}");
}
