//! Rights by HTTP: the headers that make a stranger no friend, and the databases of a user.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::http::{Answer, send};
use tests::render::render;
use tests::server::free_port;
use tests::{Server, check, network_namespace};

fn start(more: &[&str]) -> (Server, u16) {
    let port = free_port();
    let text = port.to_string();
    let own = ["--http-port", &text, "--http-commands", "all"];
    (Server::start(&[&own, more].concat()), port)
}

fn post(port: u16, path: &str, headers: &str, line: &str) -> Answer {
    send(port, "POST", path, headers, line)
}

/// A stranger, for which an address in a namespace of its own stands, whatever its headers say.
#[test]
fn no_header_is_a_way_past_protected_mode() {
    const SCRIPT: &str = r#"
        ip link set lo up && ip addr add 10.77.0.1/32 dev lo || exit 1
        "$1" --port 6379 --bind 0.0.0.0 --save '' --http-port 9121 --http-bind 0.0.0.0 \
            --http-metrics-on-port yes >/dev/null & server=$!
        for try in $(seq 200); do
            "$2" -h 127.0.0.1 ping 2>/dev/null | grep -q . && break
            sleep 0.05
        done
        "$2" acl setuser open on nopass '~*' +@all >/dev/null
        python3 -c "$3" near; python3 -c "$3" far
        "$2" config set protected-mode no >/dev/null; python3 -c "$3" far
        "$2" config set protected-mode yes requirepass secret >/dev/null; python3 -c "$3" far
        kill $server; wait $server
    "#;
    /// Prints the statuses of each path without a header, and with each of four.
    const ASK: &str = r#"
import base64, sys, urllib.error, urllib.request
host = {"near": "127.0.0.1", "far": "10.77.0.1"}[sys.argv[1]]
basic = lambda text: "Basic " + base64.b64encode(text.encode()).decode()
headers = [None, "Bearer secret", basic("default:secret"), basic("open:x"), "Nothing"]
told = []
for path in [":9121/api/me", ":9121/metrics", ":6379/metrics"]:
    for value in headers:
        given = {"Authorization": value} if value else {}
        try:
            request = urllib.request.Request("http://" + host + path, headers=given)
            told.append(urllib.request.urlopen(request, timeout=30).status)
        except urllib.error.HTTPError as error:
            told.append(error.code)
        except Exception:
            told.append(0)
print(*told)
"#;
    let Some(told) = network_namespace::run(SCRIPT, &[ASK]) else { return };
    let lines: Vec<&str> = told.lines().map(str::trim).collect();
    let thrice = |row: &str| [row; 3].join(" ");
    let by_http = |row: &str| [row; 2].join(" ");
    assert_eq!(lines.len(), 4, "{told}");
    assert_eq!(lines[0], thrice("200 200 200 200 401"), "a neighbour, where there is no password");
    // The port of Redis turns strangers away before they say anything.
    assert!(lines[1].starts_with(&by_http("403 403 403 403 403")), "a stranger: {told}");
    assert!(!lines[1].contains("200"), "a stranger: {told}");
    assert_eq!(lines[2], thrice("200 200 200 200 401"), "where protected mode is off");
    assert_eq!(lines[3], thrice("401 200 200 200 401"), "where there is a password");
}

/// A page whose name is pointed at this machine may set every header.
#[test]
fn a_password_that_is_not_needed_is_none() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> ACL SETUSER open on nopass ~* +@all\nOK");
    check(&mut client, "> ACL SETUSER boss on >word ~* +@all\nOK");
    let page = "Host: evil.example\r\nOrigin: http://evil.example\r\n\
                Sec-Fetch-Site: same-origin\r\n";
    // default:x and open:x
    for password in ["Bearer x", "Basic ZGVmYXVsdDp4", "Basic b3Blbjp4"] {
        let headers = format!("{page}Authorization: {password}\r\n");
        assert_eq!(post(port, "/api/command", &headers, "SET a 1").status, 403, "{password}");
        for path in ["/api/keys", "/api/info", "/api/me", "/api/commands"] {
            assert_eq!(send(port, "GET", path, &headers, "").status, 403, "{password} {path}");
        }
    }
    check(&mut client, "> EXISTS a\n(integer) 0");
    // boss:word, a password that a page does not know.
    let headers = "Host: db.example\r\nAuthorization: Basic Ym9zczp3b3Jk\r\n";
    assert_eq!(post(port, "/api/command", headers, "SET a 1").status, 200);
}

#[test]
fn a_database_is_entered_with_the_right_to_select_it() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> ACL SETUSER ada on >word ~* +@all -select\nOK");
    check(&mut client, "> SELECT 5\nOK\n> SET secret 42\nOK");
    // ada:word
    let ada = "Authorization: Basic YWRhOndvcmQ=\r\n";
    for line in ["GET secret", "SET secret 0", "DBSIZE"] {
        assert_eq!(post(port, "/api/command?db=5", ada, line).status, 403, "{line}");
    }
    for path in ["/api/keys?db=5", "/api/key?db=5&name=secret"] {
        assert_eq!(send(port, "GET", path, ada, "").status, 403, "{path}");
    }
    assert_eq!(post(port, "/api/command?db=0", ada, "DBSIZE").json()["reply"], 0);
    assert_eq!(post(port, "/api/command?db=5", "", "GET secret").json()["reply"], "42");
    assert_eq!(post(port, "/api/command?db=99", "", "PING").status, 400);
    let log = render(&client.call(&["ACL", "LOG"]));
    assert!(log.contains("\"select\""), "{log}");
}

#[test]
fn a_session_goes_by_the_name_of_its_user() {
    let (server, port) = start(&[]);
    let mut client = server.client();
    check(&mut client, "> ACL SETUSER ada on >word ~own:* +@all\nOK");
    // ada:word
    let ada = "Authorization: Basic YWRhOndvcmQ=\r\n";
    let ask = |line: &str| post(port, "/api/command", ada, line).json()["reply"].clone();
    assert_eq!(ask("ACL WHOAMI"), "ada");
    let list = ask("CLIENT LIST");
    assert!(list.as_str().unwrap().contains(" user=ada "), "{list}");
    ask("GET other");
    let log = render(&client.call(&["ACL", "LOG"]));
    assert!(log.contains(" user=ada "), "{log}");
}

#[test]
fn wrong_passwords_are_counted_and_logged() {
    let (server, port) = start(&["--requirepass", "secret"]);
    let mut client = server.client();
    check(&mut client, "> AUTH secret\nOK");
    // ada:word
    for header in ["Bearer guess", "Bearer guess", "Basic YWRhOndvcmQ="] {
        let headers = format!("Authorization: {header}\r\n");
        assert_eq!(send(port, "GET", "/api/me", &headers, "").status, 401);
    }
    assert_eq!(client.figure("acl_access_denied_auth"), 3);
    let log = render(&client.call(&["ACL", "LOG"]));
    for part in ["auth", "ada", "default", "cmd=http"] {
        assert!(log.contains(part), "{part} in {log}");
    }
}
