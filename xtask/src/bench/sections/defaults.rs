//! The default list of `redis-benchmark`, each test by itself, pipelined by 16.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::redis_benchmark::Classic;
use super::{Bench, Finding};

/// A test: its name, what chooses it, how many requests.
struct Test {
    name: &'static str,
    words: &'static str,
    requests: u64,
}

const fn test(name: &'static str, words: &'static str, requests: u64) -> Test {
    Test { name, words, requests }
}

/// In the order of `redis-benchmark`, but that ranges are read while the list is long. Pops are as
/// many as there are elements.
const TESTS: &[Test] = &[
    test("PING_INLINE", "-t ping_inline", 500_000),
    test("PING_MBULK", "-t ping_mbulk", 500_000),
    test("SET", "-r 100000 -t set", 500_000),
    test("GET", "-r 100000 -t get", 500_000),
    test("INCR", "-r 100000 -t incr", 500_000),
    test("LPUSH", "-r 100000 -t lpush", 500_000),
    test("RPUSH", "-r 100000 -t rpush", 500_000),
    test("LRANGE_100", "lrange mylist 0 99", 60_000),
    test("LRANGE_300", "lrange mylist 0 299", 25_000),
    test("LRANGE_500", "lrange mylist 0 499", 15_000),
    test("LRANGE_600", "lrange mylist 0 599", 12_000),
    test("LPOP", "-r 100000 -t lpop", 500_000),
    test("RPOP", "-r 100000 -t rpop", 500_000),
    test("SADD", "-r 100000 -t sadd", 500_000),
    test("HSET", "-r 100000 -t hset", 500_000),
    test("SPOP", "-r 100000 -t spop", 95_000),
    test("ZADD", "-r 100000 -t zadd", 500_000),
    test("ZPOPMIN", "-r 100000 -t zpopmin", 95_000),
    test("MSET (10 keys)", "-r 100000 -t mset", 100_000),
];

/// No test may cost more than this, times the best peer.
const WORST: f64 = 0.85;
const MEAN: f64 = 0.60;

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let names = bench.names();
    let servers = bench.start_all()?;
    let classic = Classic::on(bench.cores.generator())?;
    let new = |test: &Test| Figure::new(test.name, "server CPU us", names.len());
    let mut figures: Vec<Figure> = TESTS.iter().map(new).collect();
    bench.rounds(servers.len(), |_, index| {
        super::super::pipe::order(servers[index].port, &["FLUSHALL"])?;
        for (test, figure) in TESTS.iter().zip(&mut figures) {
            let requests = bench.plan.scaled(test.requests);
            figure.values[index].push(classic.cost(&servers[index], requests, test.words)?);
            finding.remember(&classic.command(requests, test.words));
        }
        Ok(())
    })?;
    let table = Table { names, figures };
    finding.goals = goals(&table);
    finding.tables.push(table);
    "CPU time of the server per request, 50 connections, 16 requests at once; ours with one \
     worker. Numbers in keys, members and fields are drawn from 100,000."
        .clone_into(&mut finding.method);
    Ok(())
}

fn goals(table: &Table) -> Vec<Goal> {
    let best = |figure: &Figure| table.best(figure);
    let ratios: Vec<Option<f64>> = table.figures.iter().map(best).collect();
    let mean = ratios.iter().map(|ratio| ratio.map(f64::ln)).sum::<Option<f64>>();
    let mean = mean.map(|sum| (sum / ratios.len() as f64).exp());
    let what = "server CPU of the default list, times the best peer of each: geometric mean";
    let mut goals = vec![Goal::new(what, Bound::AtMost(MEAN), mean)];
    goals.extend(table.figures.iter().zip(ratios).map(|(figure, ratio)| {
        let what = format!("server CPU per {}, times the best peer", figure.name);
        Goal::new(what, Bound::AtMost(WORST), ratio)
    }));
    goals
}

#[cfg(test)]
mod tests {
    use super::super::super::figure::{Figure, Table};
    use super::goals;

    #[test]
    fn the_mean_is_geometric_and_of_the_best_peers() {
        let names = ["Apus", "B", "C"].map(str::to_owned).to_vec();
        let figure = |name: &str, values: [f64; 3]| Figure {
            name: name.to_owned(),
            unit: "us",
            values: values.map(|value| vec![value]).to_vec(),
        };
        let figures = vec![figure("GET", [1.0, 2.0, 4.0]), figure("SET", [1.0, 9.0, 8.0])];
        let goals = goals(&Table { names, figures });
        let values: Vec<f64> = goals.iter().map(|goal| goal.value).collect();
        assert!((values[0] - 0.25).abs() < 1e-9 && values[1..] == [0.5, 0.125], "{values:?}");
    }
}
