//! The dashboard in a browser: every view is opened and used, with names that are no text, without
//! rights, on a small window, and while the data are loaded. Pictures of it are kept in
//! `target/pictures`.

use std::net::TcpStream;

use serde_json::{Value, json};
use tests::server::{eventually, free_port};
use tests::web::Browser;
use tests::{Server, check};

/// A server, the address of its dashboard, and its port.
fn start(more: &[&str]) -> (Server, String) {
    let port = free_port().to_string();
    let server = Server::start(&[&["--http-port", &port], more].concat());
    (server, format!("http://127.0.0.1:{port}/"))
}

/// The keys of the keyboard that have no letter.
const ENTER: &str = "\u{e007}";
const TAB: &str = "\u{e004}";
const UP: &str = "\u{e013}";

/// Names and values that would do harm if they were markup.
const MARKUP: &str =
    "<script>document.title='harm'</script><img src=x onerror=\"document.title='harm'\">";

fn assert_unharmed(browser: &Browser) {
    let harm = browser.run(
        "return [document.title, document.querySelectorAll('main img, main script').length]",
        &[],
    );
    assert!(!harm[0].as_str().expect("a title").contains("harm"), "{harm}");
    assert_eq!(harm[1], 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn the_overview_follows_the_load() {
    let (server, address) = start(&[]);
    let mut client = server.client();
    let browser = Browser::open(1300, 900);
    browser.go(&address);
    browser.wait_for("h1", "Overview");
    browser.wait_for("#state", "on port");
    eventually("the charts have lines and the table SET", || {
        for number in 0..200 {
            client.call(&["SET", &format!("key:{number}"), "x"]);
        }
        let lines = browser.run("return document.querySelectorAll('path.line').length", &[]);
        lines.as_u64() >= Some(12) && browser.text("main").contains("\nset\t")
    });
    let text = browser.text("main");
    for word in ["p99.9", "worker 0", "db0", "connected", "Memory by kind"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
    // Nothing moves while figures come.
    let shift = "return new Promise((done) => new PerformanceObserver((list) => done(
        list.getEntries().reduce((sum, one) => sum + one.value, 0)))
        .observe({type: 'layout-shift', buffered: true}) || setTimeout(() => done(0), 3000))";
    let shift = browser.run(shift, &[]).as_f64().expect("a number");
    assert!(shift < 0.1, "the layout moved by {shift}");
    browser.keep_picture("overview");
    // The other colours.
    let theme = || browser.run("return document.documentElement.dataset.theme", &[]);
    let before = theme();
    browser.click("#theme");
    assert_ne!(theme(), before);
    browser.keep_picture("overview-other-colours");
    assert_unharmed(&browser);
}

#[test]
fn keys_are_found_and_shown_whatever_their_names() {
    let (server, address) = start(&["--enable-debug-command", "yes"]);
    let mut client = server.client();
    check(&mut client, "> DEBUG POPULATE 100000 many 20\nOK");
    client.call(&["HSET", MARKUP, MARKUP, MARKUP]);
    client.call(&[&b"SET"[..], b"binary\xff\x00\n", b"\x00\x01\xfe"]);
    client.call(&["SET", "gnp.\u{202e}exe", "right to left"]);
    client.call(&["ZADD", "ranks", "1.5", MARKUP, "2", "b"]);
    for number in 0..150 {
        client.call(&["RPUSH", "line", &format!("element {number}")]);
    }
    client.call(&["XADD", "stream", "1-1", "field", MARKUP]);
    client.call(&["SADD", "members", MARKUP]);
    let browser = Browser::open(1300, 900);
    browser.go(&format!("{address}#keys"));
    browser.wait_for("main", "keys so far");
    let rows = || browser.run("return document.querySelectorAll('.rows li').length", &[]);
    let first = rows().as_u64().expect("a number");
    assert!((100..2000).contains(&first), "{first} rows at first");
    browser.click(".split section:first-child > button");
    eventually("there are more", || rows().as_u64() > Some(first));
    let show = |prefix: &str, seen: &str| {
        browser.run("document.querySelector('main input').value = ''", &[]);
        browser.write("main input", &format!("{prefix}{ENTER}"));
        browser.wait_for("main", "and no more");
        browser.wait_for(".rows", seen);
        browser.click(".rows button");
        browser.wait_for(".split section:last-child h2", seen)
    };
    show("binary", r#""binary\xff\x00\n""#);
    browser.wait_for("pre.value", r#""\x00\x01\xfe""#);
    show("gnp", r#""gnp.\xe2\x80\xaeexe""#);
    show("<scr", MARKUP);
    browser.wait_for("td", MARKUP);
    browser.keep_picture("keys-hostile");
    show("ranks", "ranks");
    browser.wait_for("tbody", "1.5");
    show("stream", "stream");
    browser.wait_for("tbody", MARKUP);
    show("members", "members");
    browser.wait_for("tbody", MARKUP);
    show("line", "line");
    browser.wait_for("tbody", "element 99");
    browser.click(".split section:last-child > button");
    browser.wait_for("tbody", "element 149");
    assert!(browser.text("tbody").contains("149\telement 149"));
    // What stands in a row's markup is text.
    assert_unharmed(&browser);
    // A pattern and a type.
    browser.run("document.querySelector('main input').value = ''", &[]);
    browser.write("main select", "pattern");
    browser.write("main input", &format!("*ank*{ENTER}"));
    browser.wait_for("main", "1 key, and no more");
    browser.keep_picture("keys");
    check(&mut client, "> PING\nPONG");
}

#[test]
fn lists_can_be_read_and_filtered() {
    let (server, address) = start(&["--slowlog-log-slower-than", "0", "--maxmemory", "100mb"]);
    let mut client = server.client();
    check(&mut client, "> CLIENT SETNAME ada\nOK");
    client.call(&["SET", "slow", MARKUP]);
    client.call(&[&b"SET"[..], b"\xff", b"x"]);
    let browser = Browser::open(1300, 900);
    browser.go(&address);
    browser.wait_for("h1", "Overview");
    browser.click("nav a[href='#slow']");
    browser.wait_for("tbody", &format!("SET slow {MARKUP}"));
    browser.wait_for("tbody", r#"SET "\xff" x"#);
    browser.keep_picture("slow");
    browser.click("nav a[href='#clients']");
    browser.wait_for("tbody", "ada");
    browser.write("main input", "ada");
    browser.wait_for("main", "1 client");
    browser.click("th button");
    browser.keep_picture("clients");
    browser.click("nav a[href='#configuration']");
    browser.wait_for("main", "directives");
    browser.write("main input", "maxmemory");
    browser.wait_for("tbody", "104857600");
    let row = browser.text("tbody tr.changed");
    assert!(row.contains("maxmemory") && row.contains("104857600"), "{row}");
    browser.keep_picture("configuration");
    browser.click("nav a[href='#replication']");
    browser.wait_for(".picture", "This server");
    assert_unharmed(&browser);
}

#[test]
fn replication_is_a_picture() {
    let (server, address) = start(&["--repl-diskless-sync-delay", "0"]);
    let (replica, of_replica) = start(&[]);
    let port = server.port().to_string();
    replica.client().call(&["REPLICAOF", "127.0.0.1", &port]);
    let browser = Browser::open(1300, 900);
    browser.go(&format!("{address}#replication"));
    browser.wait_for(".picture", &format!("127.0.0.1:{}", replica.port()));
    browser.wait_for(".picture", "online");
    browser.keep_picture("replication-primary");
    browser.go(&format!("{of_replica}#replication"));
    browser.wait_for(".picture", &format!("127.0.0.1:{port}"));
    browser.wait_for("main", "role replica");
    browser.keep_picture("replication-replica");
    assert_unharmed(&browser);
}

#[test]
fn the_console_completes_and_remembers() {
    let (server, address) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> RPUSH l a b\n(integer) 2");
    client.call(&["SET", "m", MARKUP]);
    let browser = Browser::open(1300, 900);
    browser.go(&format!("{address}#console"));
    browser.wait_for("main", "Commands that read");
    browser.write(".console input", "lrang");
    browser.wait_for(".choices", "LRANGE");
    browser.write(".console input", TAB);
    browser.wait_for(".hint", "LRANGE key start stop");
    browser.write(".console input", &format!("l 0 -1{ENTER}"));
    browser.wait_for(".output", "1) \"a\"\n2) \"b\"");
    browser.write(".console input", UP);
    let line = browser.run("return document.querySelector('.console input').value", &[]);
    assert_eq!(line, "LRANGE l 0 -1");
    let run = |line: &str, seen: &str| {
        browser.run("document.querySelector('.console input').value = ''", &[]);
        browser.write(".console input", &format!("{line}{ENTER}"));
        browser.wait_for(".output", seen);
    };
    run("get m", "onerror");
    run("get nothing", "(nil)");
    run("llen l", "(integer) 2");
    run("get l", "(error) WRONGTYPE");
    run("set a 1", "allows only commands that read");
    run("config get maxmemory", "1# \"maxmemory\" => \"0\"");
    run("select 3", "OK");
    browser.wait_for(".console form", "[3]>");
    run("dbsize", "(integer) 0");
    browser.keep_picture("console");
    assert_unharmed(&browser);
}

#[test]
fn a_password_is_asked_for_and_rights_are_told() {
    let (server, address) = start(&["--requirepass", "secret"]);
    let mut client = server.client();
    check(&mut client, "> AUTH secret\nOK\n> ACL SETUSER eve on >word ~* +ping\nOK");
    let browser = Browser::open(1000, 800);
    let sign_in = |name: &str, password: &str| {
        eventually("the form is open", || {
            browser.run("return document.getElementById('login').open", &[]) == true
        });
        browser.run("document.getElementById('login-name').value = arguments[0]", &[json!(name)]);
        browser.run("document.getElementById('login-password').value = ''", &[]);
        browser.write("#login-password", &format!("{password}{ENTER}"));
    };
    browser.go(&address);
    sign_in("eve", "wrong");
    browser.wait_for("#login-error", "Wrong name or password");
    browser.keep_picture("login");
    sign_in("eve", "word");
    // Each view says what is missing; none is broken.
    browser.wait_for("#state", "may not run INFO");
    for view in ["keys", "slow", "clients", "accounts", "configuration"] {
        browser.click(&format!("nav a[href='#{view}']"));
        browser.wait_for("main", "NOPERM");
    }
    browser.click("nav a[href='#console']");
    browser.write(".console input", &format!("ping{ENTER}"));
    browser.wait_for(".output", "PONG");
    browser.write(".console input", &format!("get a{ENTER}"));
    browser.wait_for(".output", "NOPERM");
    browser.keep_picture("without-rights");
    assert_unharmed(&browser);
}

#[test]
fn hot_keys_big_keys_and_prefixes_are_shown() {
    let (server, address) = start(&["--hot-keys-sample", "1"]);
    let mut client = server.client();
    client.call(&["SET", MARKUP, &"v".repeat(200_000)]);
    client.call(&[&b"SET"[..], b"user:\xff\x00", &b"v".repeat(5000)]);
    let members: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
    let mut add = vec!["SADD", "members"];
    add.extend(members.iter().map(String::as_str));
    client.call(&add);
    for _ in 0..300 {
        client.call(&["GET", MARKUP]);
        client.call(&["GET", "often"]);
        client.call(&["EXISTS", "often"]);
    }
    let browser = Browser::open(1300, 900);
    browser.go(&format!("{address}#hot"));
    browser.wait_for("tbody tr:first-child", "often");
    browser.wait_for("tbody", MARKUP);
    let choose = |word: &str| {
        let script = "const list = document.querySelector('main select');
            list.value = [...list.options].find((one) => one.text === arguments[0]).value;
            list.dispatchEvent(new Event('change'))";
        browser.run(script, &[json!(word)]);
    };
    choose("by bytes");
    browser.wait_for("tbody tr:first-child", MARKUP);
    browser.keep_picture("hot-keys");
    browser.go(&format!("{address}#big"));
    browser.wait_for("tbody tr:first-child", MARKUP);
    browser.wait_for("tbody", r#""user:\xff\x00""#);
    choose("by elements");
    browser.wait_for("tbody tr:first-child", "members");
    browser.wait_for("tbody tr:first-child", "1,000");
    browser.keep_picture("big-keys");
    browser.go(&format!("{address}#prefixes"));
    browser.wait_for("tbody", "user:");
    browser.wait_for("tbody", "(without a prefix)");
    browser.keep_picture("prefixes");
    assert_unharmed(&browser);
}

#[test]
fn accounts_tell_what_was_taken_and_how_near_their_limits_are() {
    let (server, address) = start(&["--db-quota", "3", "memory", "1mb"]);
    let mut client = server.client();
    // A name may have no blank, and is markup all the same.
    let name = "<img/src=x/onerror=document.title=/harm/>";
    for name in [name, "ada"] {
        client.call(&["ACL", "SETUSER", name, "on", ">word", "+@all", "~*"]);
    }
    let ages = "31622400";
    let rules = format!("{name} requests 10/{ages} ada requests 2/{ages}");
    let set = client.call(&["CONFIG", "SET", "user-quota", &rules]);
    assert_eq!(set, proto::value::Value::Simple(b"OK".into()));
    for (name, times) in [(name, 9), ("ada", 5)] {
        let mut client = server.client();
        client.call(&["AUTH", name, "word"]);
        (1..times).for_each(|_| _ = client.call(&["PING"]));
    }
    check(&mut client, "> SELECT 3\nOK");
    client.call(&["SET", "half", &"v".repeat(450_000)]);
    let browser = Browser::open(1300, 900);
    browser.go(&format!("{address}#accounts"));
    browser.wait_for("tr.near", name);
    browser.wait_for("tr.near", "requests 90 % of 10 in");
    browser.wait_for("tr.full", "ada");
    let of_ada = browser.text("tr.full");
    assert!(of_ada.contains("requests 100 % of 2 in"), "{of_ada}");
    browser.write("main input", "database");
    eventually("databases are left", || {
        let text = browser.text("tbody");
        text.contains("memory 4") && text.contains("% of 1.00 MB") && !text.contains("ada")
    });
    browser.run("document.querySelector('main input').value = ''", &[]);
    browser.click("th:last-child button");
    browser.wait_for("tbody tr:first-child", "ada");
    browser.keep_picture("accounts");
    assert_unharmed(&browser);
    // What was refused is told, and nothing is hidden behind a limit that was taken back.
    check(&mut client, "> CONFIG SET user-quota \"\"\nOK\n> CONFIG SET db-quota \"\"\nOK");
    browser.wait_for("main", "Nothing is counted");
}

#[test]
fn the_keyboard_and_a_phone_are_enough() {
    let (server, address) = start(&[]);
    server.client().call(&["SET", "a", "1"]);
    let browser = Browser::open(500, 900);
    browser.go(&address);
    browser.wait_for("h1", "Overview");
    for (key, title) in "1234567890-".chars().zip([
        "Overview",
        "Keys",
        "Hot keys",
        "Big keys",
        "Prefixes",
        "Slow",
        "Clients",
        "Accounts",
        "Replication",
        "Configuration",
        "Console",
    ]) {
        browser.run("document.activeElement?.blur()", &[]);
        browser.write("body", &key.to_string());
        browser.wait_for("h1", title);
        eventually("nothing is wider than the window", || {
            let wide = "return document.documentElement.scrollWidth - innerWidth";
            browser.run(wide, &[]).as_i64() <= Some(0)
        });
        browser.keep_picture(&format!("phone-{title}"));
    }
    browser.run("document.activeElement?.blur()", &[]);
    browser.write("body", "0");
    browser.wait_for("main", "directives");
    browser.write("body", "/");
    let focused = browser.run("return document.activeElement.type", &[]);
    assert_eq!(focused, Value::from("search"));
    assert_unharmed(&browser);
}

/// While data are loaded the page says so, and shows what there is.
#[test]
fn loading_is_shown() {
    let port = free_port().to_string();
    // A key in ten milliseconds: the data set takes five minutes, longer than any browser's start.
    let slowly =
        ["--http-port", &port, "--enable-debug-command", "yes", "--key-load-delay", "10000"];
    let mut server = Server::start(&slowly);
    check(&mut server.client(), "> DEBUG POPULATE 30000 many 20\nOK\n> SAVE\nOK");
    server.kill();
    server.restart_hastily();
    let address = format!("127.0.0.1:{port}");
    eventually("its port is open", || TcpStream::connect(&address).is_ok());
    let browser = Browser::open(1300, 900);
    browser.go(&format!("http://{address}/"));
    browser.wait_for("#state", "loading");
    browser.click("nav a[href='#keys']");
    browser.wait_for("main", "LOADING");
    browser.keep_picture("loading");
    assert_unharmed(&browser);
}
