//! Prefetch over pipelined batches, on against off, over few keys and over many.

use super::super::figure::{Figure, Table};
use super::super::goal::{Bound, Goal};
use super::super::peer::Workers;
use super::super::pipe;
use super::{Bench, Finding};

const SECONDS: u64 = 2;
/// Few keys lie in the caches, many do not.
const FEW: u64 = 100_000;
const MANY: u64 = 10_000_000;
const SWITCH: &str = "prefetch-batch-max-size";
/// Its settings: off, and its default.
const SETTINGS: [(&str, &str); 2] = [("off", "0"), ("on", "16")];

pub(super) fn measure(bench: &Bench<'_>, finding: &mut Finding) -> Result<(), String> {
    let generator = bench.generator(bench.cores.generator());
    let counts = [bench.plan.scaled(MANY), FEW.min(bench.plan.scaled(MANY))];
    let keys = counts
        .map(|count| format!("-d 64 --key-minimum 1 --key-maximum {count} --distinct-client-seed"));
    let mut servers = Vec::new();
    for keys in &keys {
        let server = bench.ours().start(&bench.cores.server(), Workers::Exactly(1), &[])?;
        finding.remember(&generator.fill(server.port, keys)?);
        servers.push(server);
    }
    let names = counts.map(|count| format!("{count} keys"));
    let mut by_setting = names.clone().map(|name| Figure::new(name, "server CPU us", 2));
    let mut by_keys = SETTINGS.map(|(name, _)| Figure::new(name, "server CPU us", 2));
    bench.rounds(SETTINGS.len(), |round, setting| {
        let (name, value) = SETTINGS[setting];
        for (index, server) in servers.iter().enumerate() {
            pipe::order(server.port, &["CONFIG", "SET", SWITCH, value])?;
            let seconds = bench.seconds(SECONDS);
            let words = format!(
                "-t 1 -c 50 --ratio 0:1 --pipeline 30 --test-time {seconds} --hide-histogram {}",
                keys[index]
            );
            let report = generator.run(server.port, &words)?;
            let load = report.load()?;
            let label = format!("{}, prefetch {name}", names[index]);
            finding.keep(round, "Apus", &label, &report, &load.warnings);
            // `on` goes first in the tables, so that ratios are on / off.
            by_setting[index].values[1 - setting].push(load.server_us);
            by_keys[setting].values[index].push(load.server_us);
        }
        Ok(())
    })?;
    let settings = Table { names: vec!["on".into(), "off".into()], figures: by_setting.into() };
    let sizes = Table { names: names.to_vec(), figures: by_keys.into() };
    finding.goals = vec![
        Goal::new(
            "server CPU per GET over 10 million keys, prefetch on, times off",
            Bound::Below(1.0),
            settings.ratio(&names[0], "off"),
        ),
        Goal::new(
            "server CPU per GET, prefetch on: 10 million keys, times 100,000",
            Bound::AtMost(1.3),
            sizes.ratio("on", &names[1]),
        ),
    ];
    finding.tables = vec![settings, sizes];
    finding.method = format!(
        "GET pipelined by 30 of values of 64 bytes, uniform keys, one worker; the switch is \
         `CONFIG SET {SWITCH} 0` against its default."
    );
    Ok(())
}
