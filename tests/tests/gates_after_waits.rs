//! A client that has waited asks the gates again, however it waited: rights that were withdrawn, a
//! client that was killed, a limit, a failed disk and a pause hold for what takes its locks behind
//! them.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::time::Duration;

use proto::value::Value;
use tests::client::field;
use tests::render::{render, text};
use tests::server::eventually;
use tests::{Arrival, Client, Oracle, Server};

/// How a request comes to wait.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    /// For a lock, before it begins.
    Parked,
    /// For a lock that it did not name, on a thread for heavy work.
    BegunAgain,
    /// For the end of a pause.
    Paused,
    /// For the locks that it gave back to compute.
    Apart,
    /// For an element.
    Blocked,
}

/// What happens meanwhile.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Gate {
    Command,
    Key,
    User,
    Kill,
    Memory,
    Disk,
    Pause,
}

const GATES: [Gate; 7] =
    [Gate::Command, Gate::Key, Gate::User, Gate::Kill, Gate::Memory, Gate::Disk, Gate::Pause];

/// Holds a key until `maxclients` is this.
const HOLD: &str = "repeat until string.find(redis.call('INFO', 'clients'), 'maxclients:4321')";
const BEGINS_AGAIN: &str = "for turn = 1, 2000000 do end return redis.call('SADD', 'to', 'x')";

const PLAIN: &[&[&str]] = &[&["SUNIONSTORE", "to", "from"]];
const EXEC: &[&[&str]] = &[&["MULTI"], &["SADD", "to", "x"], &["EXEC"]];
const SCRIPT: &[&[&str]] = &[&["EVAL", "return redis.call('SADD', KEYS[1], 'x')", "1", "to"]];
const LONG_SCRIPT: &[&[&str]] = &[&["EVAL", BEGINS_AGAIN, "1", "other"]];
const LONG_EXEC: &[&[&str]] = &[&["MULTI"], &["EVAL", BEGINS_AGAIN, "1", "other"], &["EXEC"]];
const DECLARED: &str = "#!lua\nfor turn = 1, 2000000 do end return redis.call('SADD', 'to', 'x')";
const DECLARED_EXEC: &[&[&str]] =
    &[&["MULTI"], &["DEL", "text"], &["EVAL", DECLARED, "1", "other"], &["EXEC"]];
const BITS: &[&[&str]] = &[&["BITOP", "OR", "to", "text", "none"]];
const BLOCKED: &[&[&str]] = &[&["BLMOVE", "queue", "to", "LEFT", "LEFT", "0"]];

const WAYS: &[(Way, &[&[&str]])] = &[
    (Way::Parked, PLAIN),
    (Way::Parked, EXEC),
    (Way::Parked, SCRIPT),
    (Way::BegunAgain, LONG_SCRIPT),
    (Way::BegunAgain, LONG_EXEC),
    (Way::BegunAgain, DECLARED_EXEC),
    (Way::Paused, PLAIN),
    (Way::Paused, EXEC),
    (Way::Paused, SCRIPT),
    (Way::Apart, PLAIN),
    (Way::Apart, BITS),
    (Way::Blocked, BLOCKED),
];

fn ask(client: &mut Client, line: &str) -> String {
    render(&client.call(&line.split(' ').collect::<Vec<_>>()))
}

struct Rig {
    server: Server,
    admin: Client,
    holder: Client,
}

impl Rig {
    fn start() -> Self {
        let server = Server::start(&[
            "--worker-threads",
            "2",
            "--busy-reply-threshold",
            "600000",
            "--enable-debug-command",
            "yes",
            "--save",
            "3600 1000000",
            "--stop-writes-on-bgsave-error",
            "no",
        ]);
        let (mut admin, holder) = (server.client(), server.client());
        // What a file cannot replace: snapshots fail.
        std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
        ask(&mut admin, "BGSAVE");
        eventually("it fails", || admin.info("rdb_last_bgsave_status") == "err");
        Self { server, admin, holder }
    }

    /// The key is held: a look at it stays without a reply while each worker answers others, who
    /// came later, more than once.
    fn await_hold(&self, mut probe: Client) {
        let mut others: Vec<Client> = (0..4).map(|_| self.server.client()).collect();
        probe.send(&["EXISTS", "to"]);
        eventually("the key is held", || {
            for _ in 0..3 {
                others.iter_mut().for_each(|other| assert_eq!(ask(other, "PING"), "PONG"));
            }
            let arrival = probe.arrival(Duration::from_millis(20)).unwrap();
            if arrival != Arrival::Silence {
                probe.send(&["EXISTS", "to"]);
            }
            arrival == Arrival::Silence
        });
    }

    /// A client of a user of its own that has sent these requests and waits, and its number.
    fn send(&mut self, way: Way, requests: &[&[&str]]) -> (Client, String) {
        let admin = &mut self.admin;
        for line in [
            "DEL to from text row queue other",
            "CONFIG SET maxclients 4000",
            "ACL SETUSER u reset on nopass ~* &* +@all",
            "SADD from x",
            "SET text x",
            "RPUSH row x",
        ] {
            ask(admin, line);
        }
        match way {
            Way::Parked | Way::BegunAgain => {
                self.holder.send(&["EVAL", HOLD, "1", "to"]);
                let probe = self.server.client();
                self.await_hold(probe);
            }
            Way::Paused => assert_eq!(ask(admin, "CLIENT PAUSE 600000 WRITE"), "OK"),
            Way::Apart => _ = ask(admin, "DEBUG FAILPOINT APART HELD"),
            Way::Blocked => {}
        }
        let mut client = self.server.client();
        assert_eq!(ask(&mut client, "AUTH u x"), "OK");
        let id = ask(&mut client, "CLIENT ID").replace("(integer) ", "");
        requests.iter().for_each(|words| client.send(words));
        // A pause holds what is queued, too.
        let skipped = if way == Way::Paused { requests.len() / 2 } else { requests.len() - 1 };
        let last = requests[skipped][0].to_lowercase();
        eventually(&format!("{way:?} {requests:?} has come"), || {
            field(&text(&self.admin.call(&["CLIENT", "LIST", "ID", &id])), "cmd") == last
                && (way != Way::Blocked || self.admin.info("blocked_clients") == "1")
        });
        (client, id)
    }

    fn shut(&mut self, gate: Gate, id: &str) -> Option<Client> {
        let line = match gate {
            Gate::Command => "ACL SETUSER u -@all +ping",
            Gate::Key => "ACL SETUSER u resetkeys ~queue ~other ~from ~text",
            Gate::User => "ACL DELUSER u",
            Gate::Kill => &format!("CLIENT KILL ID {id}"),
            Gate::Memory => "CONFIG SET maxmemory 1",
            Gate::Disk => "CONFIG SET stop-writes-on-bgsave-error yes",
            Gate::Pause => {
                // The pause is answered when what holds the key is over.
                let mut client = self.server.client();
                client.send(&["CLIENT", "PAUSE", "600000", "WRITE"]);
                return Some(client);
            }
        };
        let reply = ask(&mut self.admin, line);
        assert!(reply == "OK" || reply == "(integer) 1", "{gate:?}: {reply}");
        None
    }

    /// Brings about what the command waits for.
    fn let_go(&mut self, way: Way) {
        let line = match way {
            Way::Parked | Way::BegunAgain => "CONFIG SET maxclients 4321",
            Way::Paused => "CLIENT UNPAUSE",
            Way::Apart => "DEBUG FAILPOINT APART OFF",
            // Takes no memory, so no limit keeps it.
            Way::Blocked => "RENAME row queue",
        };
        self.admin.send(&line.split(' ').collect::<Vec<_>>());
        if matches!(way, Way::Parked | Way::BegunAgain) {
            self.holder.receive();
        }
    }

    fn open(&mut self, pauses: Option<Client>) {
        for line in ["CONFIG SET maxmemory 0", "CONFIG SET stop-writes-on-bgsave-error no"] {
            assert_eq!(ask(&mut self.admin, line), "OK");
        }
        if let Some(mut pauses) = pauses {
            // Of what was sent before the pause is held or done, none of it in the middle of it.
            assert_eq!(render(&pauses.receive()), "OK");
            let mut other = self.server.client();
            let first = ask(&mut other, "EXISTS to");
            for _ in 0..10 {
                std::thread::sleep(Duration::from_millis(5));
                assert_eq!(ask(&mut other, "EXISTS to"), first, "it changed in a pause");
            }
            assert_eq!(ask(&mut other, "CLIENT UNPAUSE"), "OK");
        }
    }
}

/// What a client is told at the end: its last reply, or that there is none.
fn last_word(client: &mut Client, requests: &[&[&str]]) -> String {
    let mut last = String::new();
    for _ in requests {
        match client.arrival(Duration::from_secs(20)) {
            Ok(Arrival::Reply(reply)) => last = render(&reply),
            other => return format!("{other:?}"),
        }
    }
    last
}

#[test]
fn a_client_that_has_waited_asks_the_gates_again() {
    let mut rig = Rig::start();
    for (way, requests) in WAYS {
        for gate in GATES {
            let what = format!("{way:?} {gate:?} {requests:?}");
            if *way == Way::Paused && gate == Gate::Pause {
                continue;
            }
            let (mut client, id) = rig.send(*way, requests);
            let pauses = rig.shut(gate, &id);
            if *way == Way::Blocked && matches!(gate, Gate::Disk | Gate::Pause) {
                // The client that would serve the waiter passes these gates itself.
                rig.open(pauses);
                rig.let_go(*way);
                assert_eq!(last_word(&mut client, requests), "\"x\"", "{what}");
                rig.admin.receive();
                continue;
            }
            rig.let_go(*way);
            let expected = match gate {
                Gate::Command | Gate::Key => "NOPERM|ACL failure",
                Gate::User | Gate::Kill => "Closed|Err",
                Gate::Memory => "OOM",
                Gate::Disk => "MISCONF",
                Gate::Pause => "",
            };
            if gate == Gate::Pause {
                rig.admin.receive();
                rig.open(pauses);
                assert!(!last_word(&mut client, requests).contains("error"), "{what}");
                assert_eq!(ask(&mut rig.admin, "EXISTS to"), "(integer) 1", "{what}");
                continue;
            }
            let word = last_word(&mut client, requests);
            // What was held as it was to be queued is refused then.
            let is_right = expected.split('|').any(|part| word.contains(part))
                || *way == Way::Paused && word.contains("EXECABORT");
            assert!(is_right, "{what}: {word}");
            rig.admin.receive();
            rig.open(None);
            assert_eq!(ask(&mut rig.admin, "EXISTS to"), "(integer) 0", "{what}");
            if matches!(gate, Gate::Memory | Gate::Disk) {
                assert_eq!(ask(&mut rig.admin, "EXISTS text"), "(integer) 1", "{what}: a half");
            }
        }
    }
}

/// As Redis does, whose blocked commands run for the first time when there is something for them.
#[test]
fn a_client_that_waits_for_an_element_is_told_where_no_memory_is_left() {
    let own = Server::start(&[]);
    let peer = Oracle::Redis82.start(&[]);
    for server in [&own, &peer] {
        for (request, served) in [
            ("BLMOVE queue to LEFT LEFT 0", false),
            ("BRPOPLPUSH queue to 0", false),
            ("BLPOP queue 0", true),
        ] {
            let (mut waits, mut admin) = (server.client(), server.client());
            ask(&mut admin, "RPUSH row x");
            waits.send(&request.split(' ').collect::<Vec<_>>());
            eventually("it waits", || admin.info("blocked_clients") == "1");
            ask(&mut admin, "CONFIG SET maxmemory 1");
            assert_eq!(ask(&mut admin, "RENAME row queue"), "OK");
            let reply = waits.receive();
            let is_refused = matches!(&reply, Value::Error(_)) && render(&reply).contains("OOM");
            assert_eq!(is_refused, !served, "{request}: {}", render(&reply));
            ask(&mut admin, "CONFIG SET maxmemory 0");
            let left = ask(&mut admin, "LLEN queue");
            assert_eq!(left, if served { "(integer) 0" } else { "(integer) 1" }, "{request}");
            ask(&mut admin, "FLUSHALL");
        }
    }
}
