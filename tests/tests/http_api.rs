//! The API of HTTP: what the dashboard reads, the console, and which callers are refused.

use serde_json::{Value, json};
use tests::http::{Answer, send};
use tests::server::free_port;
use tests::{Server, check};

/// A server with a port of HTTP.
fn start(more: &[&str]) -> (Server, u16) {
    let port = free_port();
    let text = port.to_string();
    (Server::start(&[&["--http-port", &text], more].concat()), port)
}

fn get(port: u16, path: &str) -> Answer {
    send(port, "GET", path, "", "")
}

fn read(port: u16, path: &str) -> Value {
    let answer = get(port, path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
    answer.json()
}

/// The reply that the console shows.
fn run(port: u16, line: &str) -> Value {
    let answer = send(port, "POST", "/api/command", "", line);
    assert_eq!(answer.status, 200, "{line}: {}", answer.body);
    answer.json()["reply"].clone()
}

#[test]
fn keys_come_in_pages_with_what_they_are() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    for number in 0..1000 {
        client.call(&["SET", &format!("user:{number}"), "x"]);
    }
    check(
        &mut client,
        "> RPUSH user*list a b\n(integer) 2\n> PEXPIRE user*list 100000\n(integer) 1",
    );
    client.call(&[&b"SADD"[..], b"bin\xff\x00", b"m"]);
    let mut seen = Vec::new();
    let mut cursor = "0".to_owned();
    loop {
        let page = read(port, &format!("/api/keys?cursor={cursor}&count=100"));
        let keys = page["keys"].as_array().expect("keys").clone();
        assert!(keys.len() <= 200, "{} keys on a page", keys.len());
        seen.extend(keys);
        cursor = page["cursor"].as_str().expect("a cursor").to_owned();
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(seen.len(), 1002);
    let binary = seen.iter().find(|key| key["name"].is_object()).expect("the binary name");
    assert_eq!(binary["name"], json!({"base64": "Ymlu/wA="}));
    assert_eq!((&binary["type"], &binary["ttl_ms"]), (&json!("set"), &json!(-1)));
    // A prefix is no pattern.
    let page = read(port, "/api/keys?count=1000&prefix=user%2A&cursor=0");
    let rest = read(
        port,
        &format!(
            "/api/keys?count=1000&prefix=user%2A&cursor={}",
            page["cursor"].as_str().expect("a cursor")
        ),
    );
    let found: Vec<&Value> =
        [&page, &rest].iter().flat_map(|it| it["keys"].as_array().expect("keys")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((&found[0]["name"], &found[0]["type"]), (&json!("user*list"), &json!("list")));
    assert!(found[0]["bytes"].as_u64() > Some(0));
    assert!(found[0]["ttl_ms"].as_i64() > Some(0));
    assert_eq!(get(port, "/api/keys?db=99").status, 400);
    assert_eq!(get(port, "/api/keys?cursor=x").status, 400);
}

/// All pages of a value.
fn items(port: u16, name: &str) -> (Value, Vec<Value>) {
    let mut items = Vec::new();
    let mut at = String::new();
    loop {
        let page = read(port, &format!("/api/key?name={name}&at={at}"));
        match &page["items"] {
            Value::Array(more) => items.extend(more.clone()),
            text => items.push(text.clone()),
        }
        match page["next"].as_str() {
            Some(next) => at = next.to_owned(),
            None => return (page, items),
        }
    }
}

#[test]
fn values_of_every_type_come_in_pages() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    client.call(&["SET", "text", &"x".repeat(10_000)]);
    for number in 0..250 {
        let text = format!("{number:03}");
        client.call(&["RPUSH", "list", &text]);
        client.call(&["ZADD", "zset", &text, &text]);
        client.call(&["SADD", "set", &format!("m{text}")]);
        client.call(&["HSET", "hash", &text, "v"]);
        client.call(&["XADD", "stream", &format!("{}-1", number + 1), "f", &text]);
        client.call(&["ARSET", "array", &number.to_string(), &text]);
    }
    let (page, text) = items(port, "text");
    assert_eq!((page["length"].as_u64(), text.len()), (Some(10_000), 3));
    assert_eq!(page["type"], "string");
    let (page, list) = items(port, "list");
    assert_eq!(page["encoding"], "listpack");
    assert_eq!((list.len(), &list[249]), (250, &json!("249")));
    let (_, members) = items(port, "zset");
    assert_eq!((members.len(), &members[1]), (250, &json!(["001", 1])));
    assert_eq!(items(port, "set").1.len(), 250);
    // Fields and values in turn.
    assert_eq!(items(port, "hash").1.len(), 500);
    let (_, entries) = items(port, "stream");
    assert_eq!((entries.len(), &entries[249]), (250, &json!(["250-1", ["f", "249"]])));
    let (_, elements) = items(port, "array");
    assert_eq!((elements.len(), &elements[249]), (250, &json!([249, "249"])));
    assert_eq!(read(port, "/api/key?name=nothing")["type"], "none");
    assert_eq!(get(port, "/api/key?name=list&at=x").status, 400);
    assert_eq!(get(port, "/api/key").status, 400);
}

#[test]
fn lists_are_told_as_objects() {
    let (server, port) = start(&["--slowlog-log-slower-than", "0"]);
    let mut client = server.client();
    check(&mut client, "> CLIENT SETNAME ada\nOK\n> SET a 1\nOK");
    let clients = read(port, "/api/clients");
    let is_ada = |it: &&Value| it["name"] == "ada";
    let ada = clients.as_array().expect("a list").iter().find(is_ada).expect("ada");
    assert_eq!((&ada["db"], &ada["cmd"]), (&json!("0"), &json!("set")));
    let slow = read(port, "/api/slow");
    let is_set = |it: &&Value| it["words"] == json!(["SET", "a", "1"]);
    let set = slow.as_array().expect("a list").iter().find(is_set).expect("SET is there");
    assert_eq!(set["name"], "ada");
    let config = read(port, "/api/config");
    let directives = config.as_array().expect("a list");
    let of = |name: &str| directives.iter().find(|it| it["name"] == name).expect("it is there");
    let port_text = json!(port.to_string());
    assert_eq!(
        (&of("http-port")["value"], &of("http-port")["access"]),
        (&port_text, &json!("startup"))
    );
    assert!(of("maxmemory")["doc"].as_str().expect("a text").len() > 10);
    let latency = read(port, "/api/latency");
    assert_eq!(latency["commands"]["set"]["calls"], 1);
    assert_eq!(latency["commands"]["set"]["buckets"][0][1], 1);
    let commands = read(port, "/api/commands");
    let of = |name: &str| {
        let all = commands.as_array().expect("a list");
        all.iter().find(|it| it["name"] == name).cloned().expect("it is there")
    };
    assert_eq!((&of("GET")["rights"], &of("GET")["syntax"]), (&json!("read"), &json!("key")));
    assert_eq!(of("CONFIG SET")["rights"], "write");
    assert_eq!(of("BLPOP")["rights"], "never");
    assert_eq!(get(port, "/api/nothing").status, 404);
}

#[test]
fn no_secret_is_told() {
    let (_server, port) = start(&["--requirepass", "hidden-word", "--masterauth", "hidden-word"]);
    let answer = send(port, "GET", "/api/config", "Authorization: Bearer hidden-word\r\n", "");
    assert_eq!(answer.status, 200);
    assert!(answer.body.contains("(secret)") && !answer.body.contains("hidden-word"));
}

#[test]
fn the_console_runs_what_the_directive_allows() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> SET a 1\nOK\n> RPUSH l x y\n(integer) 2");
    assert_eq!(run(port, "get a"), "1");
    assert_eq!(run(port, "LRANGE l 0 -1"), json!(["x", "y"]));
    assert_eq!(run(port, r#"ECHO "a \x41 b""#), "a A b");
    assert_eq!(run(port, "ping"), json!({"status": "PONG"}));
    assert_eq!(
        run(port, "get"),
        json!({"error": "ERR wrong number of arguments for 'get' command"})
    );
    let unknown = run(port, "nothing 1");
    assert!(unknown["error"].as_str().expect("an error").starts_with("ERR unknown command"));
    let refused = |line: &str| send(port, "POST", "/api/command", "", line).status;
    for line in ["SET a 2", "CONFIG SET maxmemory 1", "FLUSHALL", "EVAL 'return 1' 0", "SHUTDOWN"] {
        assert_eq!(refused(line), 403, "{line}");
    }
    check(&mut client, "> CONFIG SET http-commands all\nOK");
    assert_eq!(run(port, "SET a 2"), json!({"status": "OK"}));
    for line in
        ["BLPOP l 0", "SUBSCRIBE a", "MONITOR", "MULTI", "XREAD BLOCK 0 STREAMS s $", "SYNC"]
    {
        assert_eq!(refused(line), 403, "{line}");
    }
    assert_eq!(run(port, "XREAD STREAMS s 0"), Value::Null);
    check(&mut client, "> CONFIG SET http-commands none\nOK");
    assert_eq!(refused("GET a"), 403);
    check(&mut client, "> GET a\n\"2\"");
    assert_eq!(refused("GET 'a"), 400);
    assert_eq!(refused(""), 400);
    assert_eq!(refused(&"x".repeat(2 << 20)), 413);
}

#[test]
fn commands_run_with_the_rights_of_the_user() {
    let (server, port) = start(&["--requirepass", "secret", "--http-commands", "all"]);
    let mut client = server.client();
    check(&mut client, "> AUTH secret\nOK\n> SET own:a 1\nOK\n> SET other 2\nOK");
    check(&mut client, "> ACL SETUSER ada on >word ~own:* +get +scan +type\nOK");
    // ada:word
    let ada = |method: &str, path: &str, body: &str| {
        send(port, method, path, "Authorization: Basic YWRhOndvcmQ=\r\n", body)
    };
    assert_eq!(get(port, "/api/me").status, 401);
    assert!(!get(port, "/api/me").head.contains("basic"), "a browser would ask by itself");
    assert_eq!(ada("GET", "/api/me", "").json()["user"], "ada");
    let get_own = ada("POST", "/api/command", "GET own:a").json();
    assert_eq!(get_own["reply"], "1");
    for line in ["GET other", "SET own:a 2", "ACL WHOAMI"] {
        let answer = ada("POST", "/api/command", line).json();
        let error = answer["reply"]["error"].as_str().unwrap_or_else(|| panic!("{line}"));
        assert!(error.starts_with("NOPERM"), "{line}: {error}");
    }
    for path in ["/api/clients", "/api/slow", "/api/config", "/api/info", "/api/latency"] {
        assert_eq!(ada("GET", path, "").status, 403, "{path}");
    }
    // What may not be asked of a key is left out.
    let page = ada("GET", "/api/keys", "").json();
    let own = page["keys"].as_array().expect("keys").iter().find(|it| it["name"] == "own:a");
    assert_eq!(own.expect("it is there")["type"], "string");
    assert_eq!(own.expect("it is there")["ttl_ms"], Value::Null);
    assert_eq!(ada("GET", "/api/key?name=other", "").status, 403);
}

/// Names of users are for those that may run QUOTA USERS, as with the command.
#[test]
fn accounts_are_told_by_halves() {
    let (server, port) = start(&["--usage-accounting", "yes"]);
    let mut client = server.client();
    client.call(&[&b"ACL"[..], b"SETUSER", b"\xff", b"on", b">word", b"+get"]);
    client.call(&[&b"AUTH"[..], b"\xff", b"word"]);
    let mut client = server.client();
    check(&mut client, "> ACL SETUSER ada on >word +quota|databases\nOK");
    check(&mut client, "> ACL SETUSER bob on >word +quota|users\nOK");
    check(&mut client, "> CONFIG SET user-quota \"ada requests 5/60\"\nOK");
    let told = read(port, "/api/accounts");
    let users = told["users"].as_array().expect("users");
    let named = |name: &Value| users.iter().find(|it| it["user"] == *name).expect("its account");
    assert_eq!(named(&json!("ada"))["limits"], json!({"requests": "5/60"}));
    assert_eq!(named(&json!("ada"))["remaining"], json!({"requests": 5}));
    assert_eq!(named(&json!({"base64": "/w=="}))["requests"], 1);
    assert_eq!(told["databases"][0]["db"], 0);
    assert_eq!(told["accounting"], true);
    let as_user = |credentials: &str| {
        let headers = format!("Authorization: Basic {credentials}\r\n");
        send(port, "GET", "/api/accounts", &headers, "")
    };
    // ada:word, and bob:word.
    let of_ada = as_user("YWRhOndvcmQ=").json();
    assert!(of_ada["users"]["error"].as_str().expect("an error").starts_with("NOPERM"));
    assert_eq!(of_ada["databases"][0]["db"], 0);
    let of_bob = as_user("Ym9iOndvcmQ=").json();
    assert!(of_bob["users"].is_array() && of_bob["databases"]["error"].is_string());
    check(&mut client, "> ACL SETUSER bob -quota|users\nOK");
    assert_eq!(as_user("Ym9iOndvcmQ=").status, 403);
}

#[test]
fn other_sites_are_refused() {
    let (_server, port) = start(&["--http-commands", "all"]);
    let post = |headers: &str| send(port, "POST", "/api/command", headers, "PING").status;
    assert_eq!(post(""), 200);
    assert_eq!(post("Origin: http://localhost\r\n"), 200);
    assert_eq!(post("Sec-Fetch-Site: same-origin\r\n"), 200);
    for headers in [
        "Origin: http://evil.example\r\n",
        "Origin: null\r\n",
        "Sec-Fetch-Site: cross-site\r\n",
        "Sec-Fetch-Site: same-site\r\n",
        "Host: evil.example\r\n",
    ] {
        assert_eq!(post(headers), 403, "{headers}");
        assert_eq!(send(port, "GET", "/api/info", headers, "").status, 403, "{headers}");
    }
    // A preflight is answered without a word that allows anything.
    let preflight = send(port, "OPTIONS", "/api/command", "Origin: http://evil.example\r\n", "");
    assert!(preflight.status >= 400 && !preflight.head.contains("access-control"));
    assert_eq!(send(port, "GET", "/api/command", "", "").status, 405);
    assert_eq!(send(port, "POST", "/api/info", "", "").status, 405);
}

#[test]
fn renamed_commands_are_found() {
    let (server, port) =
        start(&["--rename-command", "SCAN", "LOOK", "--rename-command", "TYPE", ""]);
    check(&mut server.client(), "> SET a 1\nOK");
    let answer = get(port, "/api/keys");
    assert_eq!(answer.status, 403, "{}", answer.body);
    assert!(answer.body.contains("rename-command took TYPE away"), "{}", answer.body);
    assert_eq!(run(port, "LOOK 0"), json!(["0", ["a"]]));
}

/// No session outlives its request.
#[test]
fn sessions_end_with_their_requests() {
    let (server, port) = start(&["--maxclients", "12"]);
    for _ in 0..30 {
        assert_eq!(run(port, "PING"), json!({"status": "PONG"}));
    }
    tests::server::eventually("one client is left", || {
        read(port, "/api/info")["Clients"]["connected_clients"] == "0"
    });
    let mut held: Vec<_> = (0..12).map(|_| server.client()).collect();
    for client in &mut held {
        // A connection that was answered counts.
        check(client, "> PING\nPONG");
    }
    assert_eq!(send(port, "POST", "/api/command", "", "PING").status, 503);
    drop(held);
}
