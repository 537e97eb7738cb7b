//! Clients that are ready at the same moment: whatever their requests share on the way, each is
//! answered as if its client were alone.

use proto::value::Value;
use tests::client::encode;
use tests::render::{render, text};
use tests::{Client, Server};

/// Clients that ask at the same moment; more than are looked at, or kept as they were parsed,
/// together.
const CLIENTS: usize = 140;

/// What each of them asks for, one after the other; `@` is its number.
const STEPS: &str = "
    SET a@ 1|GET a@|INCR a@|APPEND a@ x|INCR a@|GET|GET a@ b|NOSUCH a@|PING|ECHO @|GET nothing@
    SETRANGE long@ 3000 x|GET long@|STRLEN long@|MSET b@ 1 c@ 2|MGET a@ b@ c@|DEL b@ c@|EXISTS b@
    LPUSH l@ 1 2 3|LPOP l@|BLPOP l@ 0|LPOP l@|LPOP l@|BLPOP l@ 0.01|SADD s@ x|SMEMBERS s@|TYPE s@
    EVAL 'return redis.call(\"incr\", KEYS[1])' 1 n@|EVAL 'return redis.call(\"incr\", \"n@\")' 0
    SELECT 1|GET a@|SET a@ other|SELECT 0|GET a@|WATCH a@|MULTI|INCR n@|GET n@|EXEC|MULTI|DISCARD
    HSET h@ f v|HGETALL h@|HELLO 3|HGETALL h@|CLIENT TRACKING ON|GET n@|CLIENT TRACKING OFF|GET n@
    RENAME n@ m@|GET m@|SET t@ v PX 1|SET t@ w|TTL t@|GETDEL t@|EXISTS t@|HELLO 2|GET m@
    DEBUG NOSUCH|CLIENT REPLY ON|GET m@|RESET|GET m@";

struct Company {
    server: Server,
    /// Keeps the only worker busy, so that all others are ready when it is free.
    busy: Client,
}

impl Company {
    fn new(arguments: &[&str]) -> Self {
        let common = ["--worker-threads", "1", "--enable-debug-command", "yes"];
        let server = Server::start(&[&common[..], arguments].concat());
        let busy = server.client();
        Self { server, busy }
    }

    fn clients(&self) -> Vec<Client> {
        (0..CLIENTS).map(|_| self.server.client()).collect()
    }

    /// Has all of them ask while the worker is busy.
    fn ask(&mut self, mut ask: impl FnMut()) {
        self.busy.send(&["DEBUG", "SLEEP", "0.02"]);
        ask();
        assert_eq!(render(&self.busy.receive()), "OK");
    }
}

/// The steps of one client.
fn steps(number: usize) -> Vec<Vec<Vec<u8>>> {
    let steps = STEPS.replace('@', &number.to_string());
    let lines = steps.split(['|', '\n']).map(str::trim).filter(|line| !line.is_empty());
    let words = |line: &str| base::quote::split_arguments(line.as_bytes()).expect("well quoted");
    lines.map(words).collect()
}

/// What a client was told, as all others are told it.
fn told(reply: &Value, number: usize) -> String {
    let told = render(reply);
    // A greeting says which connection it is.
    match told.contains("proto") {
        true => "the greeting".to_owned(),
        false => told.replace(&number.to_string(), "@"),
    }
}

#[test]
fn a_client_that_is_ready_with_others_is_answered_as_if_alone() {
    for arguments in [&[][..], &["--appendonly", "yes", "--appendfsync", "always"]] {
        let mut company = Company::new(arguments);
        // No other client has this number.
        let mut alone = company.server.client();
        let expected: Vec<String> =
            steps(77).iter().map(|step| told(&alone.call(step), 77)).collect();
        let mut clients = company.clients();
        let all: Vec<_> = (100..).take(CLIENTS).map(steps).collect();
        for (index, expected) in expected.iter().enumerate() {
            company.ask(|| {
                for (client, steps) in clients.iter_mut().zip(&all) {
                    client.send(&steps[index]);
                }
            });
            for (number, client) in clients.iter_mut().enumerate() {
                let step = String::from_utf8_lossy(&all[number][index].join(&b' ')).into_owned();
                assert_eq!(&told(&client.receive(), number + 100), expected, "{step}");
            }
        }
    }
}

#[test]
fn requests_that_are_not_whole_wait_for_their_rest() {
    let mut company = Company::new(&[]);
    let mut clients = company.clients();
    let request = encode(&["INCRBY", "sum", "5"]);
    for cut in 1..request.len() {
        for piece in [&request[..cut], &request[cut..]] {
            company.ask(|| {
                for (number, client) in clients.iter_mut().enumerate() {
                    // Every other one is whole, so that both kinds stand in one line.
                    match number % 2 {
                        0 => client.send_raw(piece),
                        _ => client.send(&["INCRBY", "sum", "-5"]),
                    }
                }
            });
        }
        for (number, client) in clients.iter_mut().enumerate() {
            for _ in 0..=number % 2 {
                assert!(matches!(client.receive(), Value::Integer(_)));
            }
        }
    }
    // Each that is whole took 5 twice, each in pieces added 5 once.
    let sum = -5 * (CLIENTS as i64 / 2) * (request.len() as i64 - 1);
    assert_eq!(text(&company.server.client().call(&["GET", "sum"])), sum.to_string());
}

#[test]
fn a_client_that_is_killed_beside_others_disturbs_nobody() {
    let mut company = Company::new(&[]);
    for _ in 0..5 {
        let mut clients = company.clients();
        let ids: Vec<String> = clients.iter_mut().map(Client::id).collect();
        let half = CLIENTS / 2;
        company.ask(|| {
            let (killers, victims) = clients.split_at_mut(half);
            for ((killer, victim), id) in killers.iter_mut().zip(victims).zip(&ids[half..]) {
                // The victim may have asked before or after the kill.
                if id.ends_with(['0', '2', '4', '6', '8']) {
                    victim.send(&["INCR", "asked"]);
                    killer.send(&["CLIENT", "KILL", "ID", id]);
                } else {
                    killer.send(&["CLIENT", "KILL", "ID", id]);
                    victim.try_send_raw(&encode(&["INCR", "asked"])).expect("it is not read yet");
                }
            }
        });
        for killer in &mut clients[..half] {
            assert_eq!(render(&killer.receive()), "(integer) 1");
            assert_eq!(render(&killer.call(&["PING"])), "PONG");
        }
        for victim in &mut clients[half..] {
            let left = victim.receive_to_close();
            assert!(left.is_empty() || left.starts_with(b":"), "{left:?}");
        }
    }
    let info = text(&company.server.client().call(&["INFO", "clients"]));
    assert!(info.contains("connected_clients:2\r\n"), "{info}");
}

#[test]
fn sessions_move_to_other_workers_with_what_they_were_asked() {
    let mut company = Company::new(&["--worker-threads", "3"]);
    let mut clients = company.clients();
    let mut world = company.server.client();
    for round in 1..=20_i64 {
        let workers = (round % 3 + 1).to_string();
        company.ask(|| {
            for client in &mut clients[..CLIENTS / 2] {
                client.send(&["INCR", "count"]);
            }
            world.send(&["CONFIG", "SET", "worker-threads", &workers]);
            for client in &mut clients[CLIENTS / 2..] {
                client.send(&["INCR", "count"]);
            }
        });
        assert_eq!(render(&world.receive()), "OK");
        let mut counts: Vec<i64> = Vec::new();
        for client in &mut clients {
            let Value::Integer(count) = client.receive() else { panic!("no count") };
            counts.push(count);
        }
        counts.sort_unstable();
        let first = (round - 1) * CLIENTS as i64 + 1;
        assert!(counts.iter().copied().eq(first..first + CLIENTS as i64), "{counts:?}");
    }
}

#[test]
fn a_pause_holds_all_who_asked_beside_it() {
    let mut company = Company::new(&[]);
    let (mut clients, mut other) = (company.clients(), company.server.client());
    company.ask(|| {
        other.send(&["CLIENT", "PAUSE", "100000", "WRITE"]);
        clients.iter_mut().for_each(|client| client.send(&["INCR", "count"]));
    });
    assert_eq!(render(&other.receive()), "OK");
    // Those of them that were read first may have been executed; nobody else is.
    let before = render(&other.call(&["GET", "count"]));
    assert_eq!(render(&other.call(&["GET", "count"])), before);
    assert_eq!(render(&other.call(&["CLIENT", "UNPAUSE"])), "OK");
    for client in &mut clients {
        assert!(matches!(client.receive(), Value::Integer(_)));
    }
    assert_eq!(text(&other.call(&["GET", "count"])), CLIENTS.to_string());
}
