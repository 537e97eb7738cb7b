//! KEYSTATS: which keys are hot, which are big, what the keys of each prefix take; and where else
//! that is told.

use std::collections::BTreeMap;

use proto::value::Value;
use tests::http::send;
use tests::server::{eventually, free_port};
use tests::{Client, Server, check};

/// What is refused, and how.
const REFUSED: &str = "
    > KEYSTATS
    (error) ERR wrong number of arguments for 'keystats' command
    > KEYSTATS HOT BY
    (error) ERR syntax error
    > KEYSTATS HOT BY MEMORY
    (error) ERR syntax error
    > KEYSTATS BIG BY TIME
    (error) ERR syntax error
    > KEYSTATS PREFIXES BY BYTES
    (error) ERR syntax error
    > KEYSTATS HOT COUNT
    (error) ERR syntax error
    > KEYSTATS HOT COUNT 0
    (error) ERR COUNT must be between 1 and 1000
    > KEYSTATS BIG COUNT 1001
    (error) ERR COUNT must be between 1 and 1000
    > KEYSTATS HOT COUNT x
    (error) ERR value is not an integer or out of range
    > KEYSTATS RESET now
    (error) ERR wrong number of arguments for 'keystats|reset' command
    > KEYSTATS RESET
    OK
    > KEYSTATS HOT
    (empty array)
    > KEYSTATS BIG by elements count 5
    (empty array)
";

type Row = BTreeMap<String, Value>;

fn row(value: &Value) -> Row {
    let Value::Map(pairs) = value else { panic!("a map: {value:?}") };
    let name = |name: &Value| text(name);
    pairs.iter().map(|(key, value)| (name(key), value.clone())).collect()
}

fn rows(value: &Value) -> Vec<Row> {
    let Value::Array(items) = value else { panic!("an array: {value:?}") };
    items.iter().map(row).collect()
}

fn text(value: &Value) -> String {
    String::from_utf8_lossy(value.as_bytes().expect("a string")).into_owned()
}

fn integer(value: &Value) -> i64 {
    let Value::Integer(number) = value else { panic!("a number: {value:?}") };
    *number
}

fn double(value: &Value) -> f64 {
    let Value::Double(number) = value else { panic!("a double: {value:?}") };
    *number
}

fn ask(client: &mut Client, line: &str) -> Vec<Row> {
    let words: Vec<&str> = line.split(' ').collect();
    rows(&client.call(&words))
}

fn names(rows: &[Row], name: &str) -> Vec<String> {
    rows.iter().map(|row| text(&row[name])).collect()
}

/// Runs a request very often.
fn repeat(client: &mut Client, times: usize, words: &[&str]) {
    client.pipeline(&vec![words.to_vec(); times]);
}

/// Every figure by which keys are ordered may be asked for in both protocols.
#[test]
fn each_order_of_keys_has_a_reply_in_both_protocols() {
    let server = Server::start(&[]);
    for mut client in [server.client(), server.client3()] {
        client.call(&["SET", "key", "value"]);
        let orders =
            [("HOT", &["REQUESTS", "BYTES", "TIME"][..]), ("BIG", &["MEMORY", "ELEMENTS"])];
        for (kind, figures) in orders {
            for figure in figures {
                let reply = client.call(&["KEYSTATS", kind, "BY", figure, "COUNT", "10"]);
                assert!(matches!(reply, Value::Array(_) | Value::Map(_)), "{figure}: {reply:?}");
            }
        }
    }
}

#[test]
fn words_are_refused() {
    check(&mut Server::start(&[]).client(), REFUSED);
}

#[test]
fn hot_keys_are_told_without_a_session() {
    let server = Server::start(&["--hot-keys-sample", "4"]);
    let mut client = server.client3();
    client.call(&["SELECT", "3"]);
    client.call(&["SET", "large", &"v".repeat(20_000)]);
    repeat(&mut client, 4000, &["GET", "often"]);
    repeat(&mut client, 400, &["GET", "large"]);
    let hot = ask(&mut client, "KEYSTATS HOT");
    assert_eq!(names(&hot, "key")[..2], ["often", "large"]);
    assert_eq!(integer(&hot[0]["db"]), 3);
    assert!(double(&hot[0]["share"]) > 0.5, "{hot:?}");
    assert!(double(&hot[0]["per-second"]) > double(&hot[1]["per-second"]), "{hot:?}");
    let hot = ask(&mut client, "KEYSTATS HOT BY BYTES COUNT 1");
    assert_eq!(names(&hot, "key"), ["large"]);
    // A key that is asked for by EXEC and scripts is asked for, too.
    check(&mut client, "> KEYSTATS RESET\nOK\n> KEYSTATS HOT\n(empty array)");
    for _ in 0..400 {
        let exec = [vec!["MULTI"], vec!["INCR", "queued"], vec!["INCR", "queued"], vec!["EXEC"]];
        client.pipeline(&exec);
        client.call(&["EVAL", "return redis.call('GET', KEYS[1])", "1", "scripted"]);
    }
    let hot = ask(&mut client, "KEYSTATS HOT BY REQUESTS");
    assert_eq!(names(&hot, "key")[..2], ["queued", "scripted"]);
}

#[test]
fn no_walk_over_keys_waits_for_what_exec_holds() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(&mut client, "> MULTI\nOK\n> SET a 1\nQUEUED\n> KEYSTATS HOT\nQUEUED");
    let refused = "(error) ERR Command not allowed inside a transaction";
    for line in ["KEYSTATS PREFIXES", "KEYSTATS BIG"] {
        check(&mut client, &format!("> {line}\n{refused}"));
    }
    check(
        &mut client,
        "> EXEC\n(error) EXECABORT Transaction discarded because of previous errors.",
    );
    check(&mut client, "> MULTI\nOK\n> SET a 1\nQUEUED\n> KEYSTATS HOT\nQUEUED");
    check(&mut client, "> EXEC\n1) OK\n2) (empty array)");
}

#[test]
fn no_key_is_looked_at_where_that_is_off() {
    let server = Server::start(&["--hot-keys-sample", "0", "--big-keys", "no"]);
    let mut client = server.client3();
    client.call(&["SET", "key", &"v".repeat(20_000)]);
    repeat(&mut client, 2000, &["GET", "key"]);
    check(&mut client, "> KEYSTATS HOT\n(empty array)\n> KEYSTATS BIG\n(empty array)");
    // From here on keys are looked at, and what was noted goes with it.
    check(&mut client, "> CONFIG SET hot-keys-sample 1 big-keys yes\nOK");
    client.call(&["SET", "other", &"v".repeat(20_000)]);
    repeat(&mut client, 2000, &["GET", "key"]);
    assert_eq!(names(&ask(&mut client, "KEYSTATS HOT COUNT 1"), "key"), ["key"]);
    assert_eq!(names(&ask(&mut client, "KEYSTATS BIG"), "key"), ["other"]);
    check(&mut client, "> CONFIG SET hot-keys-sample 0 big-keys no\nOK");
    check(&mut client, "> KEYSTATS HOT\n(empty array)\n> KEYSTATS BIG\n(empty array)");
}

#[test]
fn big_keys_are_told_as_they_are() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    let members: Vec<String> = (0..5000).map(|number| format!("m{number}")).collect();
    let mut add = vec!["SADD", "set"];
    add.extend(members.iter().map(String::as_str));
    client.call(&add);
    client.call(&["SET", "string", &"v".repeat(3_000_000)]);
    client.call(&["SET", "small", "v"]);
    client.call(&["RPUSH", "line", &"e".repeat(100_000)]);
    for _ in 0..300 {
        client.call(&["RPUSH", "line", "e"]);
    }
    client.call(&["XADD", "stream", "1-1", "field", &"v".repeat(50_000)]);
    let by_memory = ask(&mut client, "KEYSTATS BIG BY MEMORY");
    let types: BTreeMap<String, String> =
        names(&by_memory, "key").into_iter().zip(names(&by_memory, "type")).collect();
    let expected = [("line", "list"), ("set", "set"), ("stream", "stream"), ("string", "string")];
    assert_eq!(types, expected.map(|(key, kind)| (key.to_owned(), kind.to_owned())).into());
    assert!(by_memory.is_sorted_by_key(|row| -integer(&row["bytes"])), "{by_memory:?}");
    for row in &by_memory {
        let used = client.call(&["MEMORY", "USAGE", &text(&row["key"])]);
        assert_eq!(integer(&row["bytes"]), integer(&used), "{row:?}");
    }
    let by_elements = ask(&mut client, "KEYSTATS BIG BY ELEMENTS");
    assert_eq!(names(&by_elements, "key"), ["set", "line"]);
    assert_eq!(integer(&by_elements[1]["elements"]), 301);
    assert_eq!((&*text(&by_memory[0]["key"]), &by_memory[0]["elements"]), ("string", &Value::Null));
    // What shrinks or goes is big no longer; what changes its database is told where it is.
    check(&mut client, "> DEL string\n(integer) 1\n> LTRIM line 0 9\nOK\n> SWAPDB 0 5\nOK");
    let by_memory = ask(&mut client, "KEYSTATS BIG");
    assert!(!names(&by_memory, "key").contains(&"string".to_owned()), "{by_memory:?}");
    assert!(by_memory.iter().all(|row| integer(&row["db"]) == 5), "{by_memory:?}");
    assert_eq!(by_memory.len(), 3);
    assert_eq!(names(&ask(&mut client, "KEYSTATS BIG BY ELEMENTS"), "key"), ["set"]);
    check(&mut client, "> FLUSHALL\nOK\n> KEYSTATS BIG\n(empty array)");
}

#[test]
fn the_biggest_of_very_many_are_told() {
    let server = Server::start(&[]);
    let mut client = server.client3();
    for part in 0..20 {
        let requests: Vec<Vec<String>> = (0..100)
            .map(|number| {
                let number = part * 100 + number;
                let length = if number % 500 == 7 { 200_000 + number } else { 2000 };
                vec!["SET".to_owned(), format!("key:{number}"), "v".repeat(length)]
            })
            .collect();
        client.pipeline(&requests);
    }
    let big = ask(&mut client, "KEYSTATS BIG COUNT 4");
    let mut told = names(&big, "key");
    told.sort();
    assert_eq!(told, ["key:1007", "key:1507", "key:507", "key:7"]);
}

#[test]
fn keys_are_counted_by_their_prefixes() {
    let server = Server::start(&["--hot-keys-sample", "1"]);
    let mut client = server.client3();
    for number in 0..300 {
        client.call(&["SET", &format!("user:{number}"), &"v".repeat(1000)]);
    }
    client.call(&["MSET", "order:1", "x", "order:2", "x", "plain", "x"]);
    client.call(&["SELECT", "1"]);
    client.call(&["SET", "user:other", "x"]);
    let survey = row(&client.call(&["KEYSTATS", "PREFIXES"]));
    let prefixes = rows(&survey["prefixes"]);
    assert_eq!(names(&prefixes, "prefix"), ["user:", "order:"]);
    assert_eq!(integer(&prefixes[0]["keys"]), 301);
    assert!(integer(&prefixes[0]["bytes"]) > 300_000, "{prefixes:?}");
    assert!(double(&prefixes[0]["requests-per-second"]) > 0.0, "{prefixes:?}");
    assert_eq!(integer(&row(&survey["without-prefix"])["keys"]), 1);
    assert_eq!(integer(&row(&survey["others"])["keys"]), 0);
    // What is not told is among the others.
    let survey = row(&client.call(&["KEYSTATS", "PREFIXES", "COUNT", "1"]));
    assert_eq!(rows(&survey["prefixes"]).len(), 1);
    assert_eq!(integer(&row(&survey["others"])["keys"]), 2);
    // Declared ones count alone, the longest first.
    check(&mut client, "> CONFIG SET key-prefixes \"us user:1\"\nOK");
    let survey = row(&client.call(&["KEYSTATS", "PREFIXES"]));
    let prefixes = rows(&survey["prefixes"]);
    assert_eq!(names(&prefixes, "prefix"), ["us", "user:1"]);
    assert_eq!(integer(&prefixes[1]["keys"]), 111);
    assert_eq!(integer(&row(&survey["without-prefix"])["keys"]), 3);
}

/// The metrics, to a user by name and password.
fn metrics(port: u16, authorization: &str) -> String {
    let answer = send(port, "GET", "/metrics", authorization, "");
    assert_eq!(answer.status, 200, "{}", answer.body);
    answer.body
}

#[test]
fn names_of_keys_are_told_by_http_to_those_who_may_run_the_command() {
    let port = free_port();
    let text = port.to_string();
    let more = ["--http-port", &text, "--hot-keys-sample", "1", "--key-prefixes-interval", "1"];
    let server = Server::start(&more);
    let mut client = server.client3();
    client.call(&["SET", "user:\"1\"", &"v".repeat(20_000)]);
    repeat(&mut client, 1000, &["GET", "user:\"1\""]);
    let label = r#"{db="0",key="user:\"1\"""#;
    eventually("the metrics have all of it", || {
        repeat(&mut client, 10, &["GET", "user:\"1\""]);
        let told = metrics(port, "");
        let has = |text: &str| told.contains(text);
        has(&format!("apus_hot_key_requests_per_second{label}}} "))
            && has(&format!("apus_hot_key_bytes_per_second{label}}} "))
            && has(&format!("apus_big_key_bytes{label},type=\"string\"}} "))
            && has("apus_prefix_keys{prefix=\"user:\"} 1\n")
            && has("apus_prefix_requests_per_second{prefix=\"user:\"} ")
    });
    let read = |path: &str, headers: &str| send(port, "GET", path, headers, "");
    let hot = read("/api/hotkeys?by=bytes", "").json();
    assert_eq!(hot[0]["key"], "user:\"1\"");
    let big = read("/api/bigkeys", "").json();
    assert_eq!((&big[0]["key"], &big[0]["type"]), (&"user:\"1\"".into(), &"string".into()));
    assert_eq!(read("/api/prefixes", "").json()["prefixes"][0]["keys"], 1);
    assert_eq!(read("/api/hotkeys?by=colour", "").status, 400);
    // A user of INFO alone is told figures, and no name.
    check(&mut client, "> ACL SETUSER ada on >word +info\nOK");
    let ada = "Authorization: Basic YWRhOndvcmQ=\r\n";
    let told = metrics(port, ada);
    assert!(told.contains("apus_connected_clients") && !told.contains("user:"), "{told}");
    for path in ["/api/hotkeys", "/api/bigkeys", "/api/prefixes"] {
        assert_eq!(read(path, ada).status, 403, "{path}");
    }
}
