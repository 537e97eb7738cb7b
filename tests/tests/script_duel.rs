//! Random Lua programs answer the same on Apus and on the real servers, in both protocols, alone
//! and among the transactions of two connections, and leave the same values behind. A difference
//! is told as the shortest requests that still show it.
//!
//! `APUS_DUEL_PROGRAMS=200000` asks so many requests in all, of a fresh seed.

use std::fmt::Write;

use base::random::Random;
use proto::value::Value;
use tests::client::line;
use tests::differential::{Command, Difference, Exception, Step};
use tests::generator::{Has, REDIS70, VALKEY91, compare_states, rule};
use tests::lua_programs::{PROGRAMS_REDIS70, PROGRAMS_VALKEY91, Programs, Request};
use tests::{Duel, Oracle, Server};

/// How many requests all oracles are asked, both protocols together; most of them are programs.
const REQUESTS: usize = 12_000;
/// Requests between two empty worlds.
const EPISODE: usize = 60;
/// The seed that every short run has; a long one draws its own.
const SEED: u64 = 5;
/// How many differences are told before a run gives up.
const TOLD: usize = 6;

#[test]
fn random_programs_answer_as_on_redis70() {
    duel(Oracle::Redis70, [REDIS70, PROGRAMS_REDIS70]);
}

#[test]
fn random_programs_answer_as_on_valkey91() {
    duel(Oracle::Valkey91, [VALKEY91, PROGRAMS_VALKEY91]);
}

fn duel(oracle: Oracle, exceptions: [&'static [Exception]; 2]) {
    let asked = std::env::var("APUS_DUEL_PROGRAMS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_DUEL_PROGRAMS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    let requests: usize = asked.unwrap_or(REQUESTS) / 4;
    let halves = std::thread::scope(|scope| {
        let run =
            |protocol| scope.spawn(move || Half::run(oracle, exceptions, protocol, seed, requests));
        let halves = [run("2"), run("3")];
        halves.map(|half| half.join().expect("a duel reports instead of panicking"))
    });
    let reports: Vec<&str> =
        halves.iter().flat_map(|half| half.reports.iter().map(String::as_str)).collect();
    assert!(reports.is_empty(), "{oracle:?}, seed {seed}\n{}", reports.join("\n\n"));
    for half in &halves {
        let Half { programs, succeeded, transactions, .. } = half;
        eprintln!("{oracle:?}: of {programs} programs {succeeded} succeeded; {transactions} EXECs");
        assert!(succeeded * 4 > *programs, "only {succeeded} of {programs} programs succeeded");
        assert!(transactions * 100 > requests, "only {transactions} transactions");
    }
}

/// One protocol's share of the requests, with a pair of servers of its own.
#[derive(Default)]
struct Half {
    programs: usize,
    succeeded: usize,
    /// Transactions that ran.
    transactions: usize,
    reports: Vec<String>,
}

impl Half {
    fn run(
        oracle: Oracle,
        exceptions: [&'static [Exception]; 2],
        protocol: &'static str,
        seed: u64,
        requests: usize,
    ) -> Self {
        let (ours, theirs) = (Server::start(&[]), oracle.start(&[]));
        let connect = |server: &Server| match protocol {
            "3" => server.client3(),
            _ => server.client(),
        };
        let duel = Duel::new(connect(&ours), connect(&theirs), seed);
        let mut duel = duel.ruled(rule).except(exceptions[0]).except(exceptions[1]);
        duel.join(connect(&ours), connect(&theirs));
        let is_recent = oracle != Oracle::Redis70;
        let has = Has { field_times: is_recent, field_order: false, small_sets: is_recent };
        let mut half = Self::default();
        let mut drawer = Programs::new(seed, is_recent);
        for number in 0..requests.div_ceil(EPISODE) {
            let drawn = drawer.draw(EPISODE);
            match run(&mut duel, has, &drawn) {
                Ok(replies) => half.note(&drawn, &replies),
                Err(found) => {
                    let told = shrink(&mut duel, has, drawn, found);
                    half.reports.push(format!("RESP{protocol}, episode {number}: {told}"));
                }
            }
            if half.reports.len() >= TOLD {
                break;
            }
        }
        half
    }

    fn note(&mut self, requests: &[Request], replies: &[Value]) {
        let mut replies = replies.iter();
        for request in requests {
            let steps = request.steps();
            // What a program answers comes last, after what loads it.
            let reply = replies.nth(steps.len() - 1).expect("each step was answered");
            let is_program = matches!(request, Request::Program(..));
            self.programs += usize::from(is_program);
            self.succeeded += usize::from(is_program && !matches!(reply, Value::Error(_)));
            let is_exec = steps[0].command == [b"EXEC"];
            self.transactions += usize::from(is_exec && matches!(reply, Value::Array(_)));
        }
    }
}

/// Runs requests in an empty world, and compares what they left behind.
fn run(duel: &mut Duel, has: Has, requests: &[Request]) -> Result<Vec<Value>, Difference> {
    duel.leave_transactions();
    let empty = [&["FLUSHALL"][..], &["FUNCTION", "FLUSH"], &["SCRIPT", "FLUSH"]];
    let words = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
    duel.run_all(empty.into_iter().map(words).collect::<Vec<Command>>());
    let steps: Vec<Step> = requests.iter().flat_map(Request::steps).collect();
    let replies = duel.try_run_steps(&steps)?;
    duel.leave_transactions();
    compare_states(duel, has).map_err(|(_, difference)| difference)?;
    Ok(replies)
}

/// The difference with as few requests, and these with as few statements, as can be found.
fn shrink(duel: &mut Duel, has: Has, mut requests: Vec<Request>, mut found: Difference) -> String {
    let mut at = requests.len();
    while at > 0 {
        at -= 1;
        let mut fewer = requests.clone();
        fewer.remove(at);
        if let Err(again) = run(duel, has, &fewer) {
            (requests, found) = (fewer, again);
        }
    }
    let mut at = requests.len();
    while at > 0 {
        at -= 1;
        let mut shorter = requests[at].shorter();
        while let Some(request) = shorter.pop() {
            let mut simpler = requests.clone();
            simpler[at] = request;
            if let Err(again) = run(duel, has, &simpler) {
                shorter = simpler[at].shorter();
                (requests, found) = (simpler, again);
            }
        }
    }
    let mut text = String::from("after these the replies or the values differ\n");
    for request in &requests {
        writeln!(text, "{:?}: {}", request.speaker(), request.text()).expect("a String takes all");
    }
    write!(text, "{}\n{found}", line(&found.command)).expect("a String takes all");
    text
}
