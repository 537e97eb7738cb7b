//! Which of two gates speaks that are both shut: the error that a client gets is that of Redis 8.2.
//!
//! Invariant: each pair of reasons is there at once, for commands of each kind.

use tests::render::render;
use tests::{Client, Oracle, Server};

/// A reason for which commands are refused, and how it goes.
const REASONS: [(&str, &str, &str); 5] = [
    ("few replicas", "CONFIG SET min-replicas-to-write 1", "CONFIG SET min-replicas-to-write 0"),
    ("no memory", "CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"),
    ("a replica", "REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE"),
    (
        "a stale replica",
        "CONFIG SET replica-serve-stale-data no",
        "CONFIG SET replica-serve-stale-data yes",
    ),
    ("denied", "ACL SETUSER u -@all +client +monitor +subscribe +auth", "ACL SETUSER u +@all"),
];

/// What the client is that asks.
const CLIENTS: [&str; 3] = ["", "SUBSCRIBE c", "MONITOR"];

const COMMANDS: [&str; 9] = [
    "SET k v",
    "GET k",
    "RPOPLPUSH a b",
    "DEL k",
    "PUBLISH c m",
    "EVAL return+1 0",
    "EVAL #!lua+flags=no-writes\nreturn+1 0",
    "EVAL_RO return+1 0",
    "PING",
];

/// Says one command, whose words have blanks where a `+` stands.
fn say(client: &mut Client, line: &str) -> String {
    let words: Vec<String> =
        line.split(' ').map(|word| word.replace('+', " ").replace("\\n", "\n")).collect();
    render(&client.call(&words))
}

/// What the commands are answered while these two reasons are there.
fn answers(server: &Server, reasons: [usize; 2]) -> Vec<String> {
    let mut steering = server.client();
    let order = |client: &mut Client, line: &str| {
        client.call(&line.split(' ').collect::<Vec<_>>());
    };
    let mut told = Vec::new();
    for kind in CLIENTS {
        order(&mut steering, "ACL SETUSER u on nopass ~* &* +@all");
        reasons.iter().for_each(|it| order(&mut steering, REASONS[*it].1));
        for line in COMMANDS {
            let mut client = server.client();
            order(&mut client, "AUTH u x");
            if !kind.is_empty() {
                order(&mut client, kind);
            }
            client.send(
                &line
                    .split(' ')
                    .map(|word| word.replace('+', " ").replace("\\n", "\n"))
                    .collect::<Vec<_>>(),
            );
            // A monitor may be shown its own command before the reply.
            let reply = std::iter::repeat_with(|| render(&client.receive()))
                .find(|reply| kind != "MONITOR" || !reply.contains("127.0.0.1:"))
                .expect("there is a reply");
            told.push(format!("{kind} {line}: {reply}"));
        }
        reasons.iter().for_each(|it| order(&mut steering, REASONS[*it].2));
        assert_eq!(say(&mut steering, "PING"), "PONG");
    }
    told
}

#[test]
fn of_two_shut_gates_the_one_that_speaks_is_that_of_redis() {
    let [ours, theirs] = [Server::start(&[]), Oracle::redis82()];
    let pairs = (0..REASONS.len()).flat_map(|one| (one..REASONS.len()).map(move |it| [one, it]));
    for pair in pairs {
        let [ours, theirs] = [&ours, &theirs].map(|server| answers(server, pair));
        let [first, second] = pair.map(|it| REASONS[it].0);
        for (our, their) in ours.iter().zip(&theirs) {
            assert_eq!(our, their, "{first} and {second}");
        }
    }
}
