//! A full sync of two gigabytes while the primary writes as fast as it can.

use std::thread::sleep;
use std::time::Duration;

use super::super::super::figure::{Figure, Table};
use super::super::super::goal::{Bound, Goal};
use super::super::super::peer::{REDIS_82, Workers};
use super::super::snapshots::{keys, proportional};
use super::super::{Bench, Finding};
use super::{follow, names, start, two, until};

/// Long enough for any of them.
const SECONDS: u64 = 25;

pub(in super::super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = two(bench)?;
    let generator = bench.generator(bench.cores.all());
    let keys = keys(bench);
    let words = format!(
        "-t 1 -c 50 --distinct-client-seed --ratio 1:0 --test-time {} --hide-histogram {keys}",
        bench.seconds(SECONDS)
    );
    let mut figures = vec![
        Figure::new("time until the replica is online", "s", 2),
        Figure::new("memory that the sync adds to the primary", "%", 2),
        Figure::new("p99.9 of SET on the primary", "ms", 2),
        Figure::new("SETs meanwhile", "requests/s", 2),
    ];
    bench.rounds(2, |round, index| {
        let primary = start(peers[index], &bench.cores.all(), Workers::Default)?;
        finding.remember(&generator.fill(primary.port, &keys)?);
        let replica = start(peers[index], &bench.cores.all(), Workers::Default)?;
        let run = generator.start(primary.port, &words)?;
        sleep(Duration::from_secs(1));
        let before = proportional(primary.pid())?;
        let mut most = before;
        follow(&replica, &primary)?;
        let took = until("the replica is online", || {
            most = most.max(proportional(primary.pid())?);
            Ok(replica.info("replication", "master_link_status")? == "up")
        })?;
        let report = run.finish()?;
        figures[0].values[index].push(took.as_secs_f64());
        figures[1].values[index].push((most / before - 1.0) * 100.0);
        figures[2].values[index].push(report.percentile("p99.90")?);
        figures[3].values[index].push(report.rate()?);
        finding.keep(round, peers[index].name, "SET", &report, &[]);
        Ok(())
    })?;
    let table = Table { names: names(peers), figures };
    let ratio = |figure: usize| table.ratio(&table.figures[figure].name, REDIS_82);
    finding.goals.extend([
        Goal::new("full sync under load: time, times Redis 8.2", Bound::AtMost(0.5), ratio(0)),
        Goal::new(
            "memory that a full sync adds to its primary, %",
            Bound::AtMost(10.0),
            Some(table.figures[1].median(0)),
        ),
        Goal::new("p99.9 of SET beside a full sync, times Redis 8.2", Bound::Below(1.0), ratio(2)),
    ]);
    finding.tables.push(table);
    finding.method = "Keys of 8 bytes with random values of 1 KB as in the section on snapshots; \
                      50 connections SET them while a replica of the same program fetches all of \
                      it. Both servers and the generator share all cores. The backlog of 1 GB is \
                      part of the memory that is added. Latencies are of the whole run, which \
                      lasts longer than the sync."
        .to_owned();
    Ok(())
}
