//! What makes a store programmable: scripts, transactions, messages.

use base::Random;

use super::super::exchange::{Broadcast, Exchange, stay_on};
use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{REDIS_70, Running, Workers};
use super::super::pipe;
use super::super::redis_benchmark::Classic;
use super::{Bench, Finding};

const UNIT: &str = "server CPU us";
const SCRIPT: &str = "return redis.call('GET', KEYS[1])";
const KEYS: u64 = 100_000;

/// A script of one GET, beside peers, and on two workers beside one.
pub(super) fn scripts(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let servers = bench.start_all()?;
    let classic = Classic::on(bench.cores.generator())?;
    let requests = bench.plan.scaled(400_000);
    let words: Result<Vec<String>, String> = servers.iter().map(prepare).collect();
    let words = words?;
    let mut figure = Figure::new("EVALSHA of one GET, pipelined by 16", UNIT, servers.len());
    bench.rounds(servers.len(), |_, index| {
        let cost = classic.cost(&servers[index], requests, &words[index])?;
        figure.values[index].push(cost);
        Ok(())
    })?;
    finding.remember(&classic.command(requests, &words[0]));
    drop(servers);
    let table = Table { names: bench.names(), figures: vec![figure] };
    let what = "server CPU per EVALSHA of one GET, times the best peer";
    let best = table.best(&table.figures[0]);
    finding.goals.push(Goal::new(what, Bound::AtMost(0.5), best));
    finding.tables.push(table);
    let two = two_workers(bench, requests)?;
    // What a request costs more is what two threads do less than twice as much.
    let gain = two.ratio(&two.figures[0].name, &two.names[1]).map(|ratio| 2.0 / ratio);
    let what = "two threads against one, EVALSHA on disjoint keys, by CPU time";
    finding.goals.push(Goal::new(what, Bound::AtLeast(1.7), gain));
    finding.tables.push(two);
    finding.method = format!(
        "`{SCRIPT}`, {KEYS} uniform keys with values of 16 bytes, 50 connections. The second table \
         is ours alone, with its workers and the generator on the same cores: what two workers \
         hinder each other is what a request costs more than with one."
    );
    Ok(())
}

/// Fills a server and gives it the script; the generator's words.
fn prepare(server: &Running) -> Result<String, String> {
    let set = |key: u64| ["SET", &format!("key:{key:012}"), "0123456789abcdef"].map(str::to_owned);
    pipe::feed(server.port, (0..KEYS).map(|key| set(key).to_vec()))?;
    let digest = pipe::text(server.port, &["SCRIPT", "LOAD", SCRIPT])?;
    Ok(format!("-r {KEYS} evalsha {digest} 1 key:__rand_int__"))
}

fn two_workers(bench: &Bench<'_>, requests: u64) -> Result<Table, String> {
    let cores = bench.cores.servers();
    let two = cores[..cores.len().min(2)].join(",");
    let classic = Classic::on(bench.cores.generators())?;
    let start = |workers| bench.ours().start(&two, Workers::Exactly(workers), &[]);
    let servers = [start(2)?, start(1)?];
    let words = [prepare(&servers[0])?, prepare(&servers[1])?];
    let mut figure = Figure::new("EVALSHA on disjoint keys, pipelined by 16", UNIT, 2);
    bench.rounds(2, |_, index| {
        let cost = classic.cost(&servers[index], requests, &words[index])?;
        figure.values[index].push(cost);
        Ok(())
    })?;
    let names = ["two workers", "one worker"].map(str::to_owned).to_vec();
    Ok(Table { names, figures: vec![figure] })
}

/// A load of transactions.
#[derive(Clone, Copy)]
struct Transactions {
    name: &'static str,
    /// How many are sent together.
    together: usize,
    /// How many keys there are.
    keys: u64,
    /// Whether each connection waits for the replies to all before it sends again.
    in_rounds: bool,
}

const SETS: usize = 10;
const TRANSACTIONS: [Transactions; 5] = {
    let one =
        Transactions { name: "MULTI, 10 SETs, EXEC", together: 1, keys: KEYS, in_rounds: false };
    let same = SETS as u64;
    [
        one,
        Transactions { name: "MULTI, 10 SETs, EXEC, pipelined by 8", together: 8, ..one },
        Transactions { name: "MULTI, 10 SETs, EXEC, in rounds", in_rounds: true, ..one },
        Transactions { name: "MULTI, 10 SETs of the same 10 keys, EXEC", keys: same, ..one },
        Transactions {
            name: "MULTI, 10 SETs of the same 10 keys, EXEC, pipelined by 8",
            together: 8,
            keys: same,
            ..one
        },
    ]
};

/// Transactions of ten SETs, sent as one, and several behind each other.
pub(super) fn transactions(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    const CONNECTIONS: usize = 10;
    let servers = bench.start_all()?;
    for server in &servers {
        prepare(server)?;
    }
    stay_on(&bench.cores.generator())?;
    let mut figures = TRANSACTIONS.map(|load| Figure::new(load.name, UNIT, servers.len())).to_vec();
    bench.rounds(servers.len(), |_, index| {
        for (load, figure) in TRANSACTIONS.iter().zip(&mut figures) {
            let (requests, reply) = load.requests();
            let server = &servers[index];
            let mut exchange = Exchange::new(server.port, CONNECTIONS, requests, reply.len())?;
            exchange.run(1)?;
            if exchange.reply() != reply.as_bytes() {
                let said = String::from_utf8_lossy(exchange.reply()).into_owned();
                return Err(format!("a transaction is answered by {said}"));
            }
            let times = bench.plan.scaled(3000) / load.together as u64 + 1;
            let watch = server.watch();
            let (turns, each) = if load.in_rounds { (times, 1) } else { (1, times) };
            (0..turns).try_for_each(|_| exchange.run(each))?;
            let used = server.used(&watch)?;
            let count = times as f64 * (CONNECTIONS * load.together) as f64;
            figure.values[index].push((used.user + used.system).as_secs_f64() * 1e6 / count);
        }
        Ok(())
    })?;
    stay_on(&bench.cores.all())?;
    let table = Table { names: bench.names(), figures };
    finding.goals = table
        .figures
        .iter()
        .map(|figure| {
            let what = format!("server CPU per {}, times the best peer", figure.name);
            Goal::new(what, Bound::AtMost(0.6), table.best(figure))
        })
        .collect();
    finding.tables.push(table);
    finding.method = format!(
        "{KEYS} uniform keys of 16 bytes with values of 16, {CONNECTIONS} connections; CPU time of \
         the server per transaction. Each is sent in one piece, or as many together as it says, \
         and a connection sends again when it has its reply; in rounds, when all have theirs, so \
         the client sleeps and is woken for nearly each. Where the keys are the same ten in each, \
         all is in the nearest cache."
    );
    Ok(())
}

impl Transactions {
    /// Different pieces to send, and the reply to each.
    fn requests(&self) -> (Vec<Vec<u8>>, String) {
        const PIECES: usize = 1000;
        let mut random = Random::from_seed(1);
        let mut piece = || {
            let transactions = (0..self.together).map(|_| self.transaction(&mut random));
            transactions.collect::<Vec<_>>().concat()
        };
        let requests = (0..PIECES).map(|_| piece()).collect();
        let (queued, done) = ("+QUEUED\r\n".repeat(SETS), "+OK\r\n".repeat(SETS));
        (requests, format!("+OK\r\n{queued}*{SETS}\r\n{done}").repeat(self.together))
    }

    fn transaction(&self, random: &mut Random) -> Vec<u8> {
        let mut request = pipe::encode(&["MULTI"]);
        for _ in 0..SETS {
            let key = format!("key:{:012}", random.below(self.keys));
            request.extend(pipe::encode(&["SET", &key, "0123456789abcdef"]));
        }
        request.extend(pipe::encode(&["EXEC"]));
        request
    }
}

/// Messages to a hundred subscribers.
pub(super) fn messages(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    const SUBSCRIBERS: usize = 100;
    const PIPELINES: [(&str, usize); 3] = [
        ("message to 100 subscribers", 1),
        ("message to 100 subscribers, pipelined by 16", 16),
        ("message to 100 subscribers, pipelined by 100", 100),
    ];
    let servers = bench.start_all()?;
    stay_on(&bench.cores.generator())?;
    let mut figures = PIPELINES.map(|(name, _)| Figure::new(name, UNIT, servers.len())).to_vec();
    bench.rounds(servers.len(), |_, index| {
        let server = &servers[index];
        for ((_, pipeline), figure) in PIPELINES.iter().zip(&mut figures) {
            let mut broadcast = Broadcast::new(server.port, SUBSCRIBERS, *pipeline)?;
            let times = bench.plan.scaled(4000) / *pipeline as u64 + 1;
            let messages = times as usize * pipeline;
            let watch = server.watch();
            broadcast.run(times)?;
            let used = server.used(&watch)?;
            let count = (messages * SUBSCRIBERS) as f64;
            figure.values[index].push((used.user + used.system).as_secs_f64() * 1e6 / count);
        }
        Ok(())
    })?;
    stay_on(&bench.cores.all())?;
    let table = Table { names: bench.names(), figures };
    finding.goals = table
        .figures
        .iter()
        .map(|figure| {
            let what = format!("{}: messages per CPU second, times Redis 7.0", figure.name);
            let rate = table.ratio(&figure.name, REDIS_70).map(f64::recip);
            Goal::new(what, Bound::AtLeast(1.5), rate)
        })
        .collect();
    finding.tables.push(table);
    finding.method = format!(
        "One publisher, {SUBSCRIBERS} subscribers of one channel, messages of 64 bytes; CPU time \
         of the server per message delivered."
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::TRANSACTIONS;

    #[test]
    fn a_transaction_is_answered_command_by_command() {
        for load in TRANSACTIONS {
            let (requests, reply) = load.requests();
            assert_eq!(reply.lines().count(), load.together * (1 + 10 + 1 + 10));
            for request in requests {
                let request = String::from_utf8(request).expect("all of it is text");
                assert_eq!(request.matches("SET").count(), load.together * 10);
            }
        }
    }
}
