//! How fast a data set is saved and loaded, from memory to memory.

use std::path::Path;
use std::time::Instant;

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::{Peer, REDIS_70, Running, Workers};
use super::super::pipe;
use super::{Bench, Finding, IN_MEMORY};

/// Bytes of keys and values.
const BYTES: u64 = 2_000_000_000;
const KEY_BYTES: u64 = 16;
const VALUES: [u64; 2] = [1024, 64];

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let peers = [bench.ours(), bench.peer(REDIS_70)?];
    let names = peers.map(|peer| peer.name.to_owned()).to_vec();
    let mut figures = Vec::new();
    for value in VALUES {
        let count = bench.plan.scaled(BYTES) / (KEY_BYTES + value);
        let words = format!(
            "--random-data -d {value} --key-minimum {FIRST} --key-maximum {}",
            FIRST + count
        );
        let title = |what: &str| format!("{what} values of {value} bytes");
        let mut saving = Figure::new(title("saving"), "GB/s", 2);
        let mut loading = Figure::new(title("loading"), "GB/s", 2);
        let gigabytes = (count * (KEY_BYTES + value)) as f64 / 1e9;
        let mut series = Vec::new();
        for peer in peers {
            series.push(Series::begin(bench, peer, &words, finding)?);
        }
        bench.rounds(2, |_, index| {
            let (saved, loaded) = series[index].round(bench)?;
            saving.values[index].push(gigabytes / saved);
            loading.values[index].push(gigabytes / loaded);
            Ok(())
        })?;
        figures.extend([saving, loading]);
    }
    let table = Table { names, figures };
    finding.goals = table
        .figures
        .iter()
        .map(|figure| {
            let what = format!("{}: speed, times Redis 7.0", figure.name);
            Goal::new(what, Bound::AtLeast(2.0), table.ratio(&figure.name, REDIS_70))
        })
        .collect();
    finding.tables.push(table);
    finding.method = format!(
        "{BYTES} bytes of keys of {KEY_BYTES} bytes and random values, `rdbcompression` as by \
         default, files in memory, all cores. Saving is `SAVE` from request to reply; loading \
         is from the start of the process until INFO says that it is over."
    );
    Ok(())
}

/// The generator's keys have so many digits that all are equally long.
const FIRST: u64 = 10_000_000;

/// A server that is started again from what it has saved.
struct Series<'a> {
    peer: &'a Peer,
    server: Option<Running>,
}

impl<'a> Series<'a> {
    fn begin(
        bench: &Bench<'_>,
        peer: &'a Peer,
        words: &str,
        finding: &mut Finding,
    ) -> Result<Self, String> {
        let (root, cores) = (Path::new(IN_MEMORY), bench.cores.all());
        let server = peer.start_in(root, None, &cores, (Workers::Default, &[]))?;
        let generator = bench.generator(cores);
        finding.remember(&generator.fill(server.port, words)?);
        Ok(Self { peer, server: Some(server) })
    }

    /// Saves and loads once; how long each took, in seconds.
    fn round(&mut self, bench: &Bench<'_>) -> Result<(f64, f64), String> {
        let server = self.server.take().ok_or("a round has failed before")?;
        let keys = pipe::line(&pipe::connect(server.port)?, &["DBSIZE"])?;
        let began = Instant::now();
        pipe::order(server.port, &["SAVE"])?;
        let saved = began.elapsed().as_secs_f64();
        let (root, cores) = (Path::new(IN_MEMORY), bench.cores.all());
        let kept = root.join(format!("{}.rdb", server.port));
        std::fs::rename(server.snapshot(), &kept).map_err(|error| error.to_string())?;
        drop(server);
        let began = Instant::now();
        let server = self.peer.start_in(root, Some(&kept), &cores, (Workers::Default, &[]))?;
        server.reaches("persistence", "loading", "0")?;
        let loaded = began.elapsed().as_secs_f64();
        let again = pipe::line(&pipe::connect(server.port)?, &["DBSIZE"])?;
        if again != keys {
            return Err(format!("{keys} keys were saved and {again} loaded"));
        }
        self.server = Some(server);
        Ok((saved, loaded))
    }
}
