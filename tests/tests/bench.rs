//! What `apus bench` says of a run that did not go as asked: in its table, its JSON file and its
//! exit code.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tests::Server;
use tests::environment::binary;
use tests::render::text;
use tests::server::eventually;

/// A run with one connection, whose results go to a file.
fn bench(server: &Server, file: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(["bench", "-p", &server.port().to_string(), "-t", "1", "-c", "1"]).args(words);
    command.args(["--hide-histogram", "--json-out-file"]).arg(file);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// All that was printed, and what the file says of the run's end.
fn said(output: &Output, file: &Path) -> (String, bool) {
    let printed = [&output.stdout[..], &output.stderr].concat();
    let printed = String::from_utf8_lossy(&printed).into_owned();
    let json = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{error}: {printed}"));
    let json: String = json.chars().filter(|one| !one.is_whitespace()).collect();
    let told = ["true", "false"].map(|word| json.contains(&format!("\"Interrupted\":\"{word}\"")));
    assert!(told[0] != told[1], "one of the two: {json}");
    (printed, told[0])
}

fn totals(printed: &str) -> Option<f64> {
    let line = printed.lines().find(|line| line.starts_with("Totals"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[test]
fn a_run_that_is_interrupted_shows_what_it_measured() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("results.json");
    for signal in [Signal::INT, Signal::TERM] {
        let mut observer = server.client();
        observer.call(&["CONFIG", "RESETSTAT"]);
        let run = bench(&server, &file, &["--test-time", "3600"]).spawn().expect("it starts");
        eventually("the run is under way", || {
            let stats = text(&observer.call(&["INFO", "stats"]));
            !stats.contains("keyspace_misses:0\r\n")
        });
        let id = i32::try_from(run.id()).ok().and_then(Pid::from_raw).expect("a child has an id");
        kill_process(id, signal).expect("a child takes signals");
        let output = run.wait_with_output().expect("it ends");
        let (printed, is_interrupted) = said(&output, &file);
        assert!(totals(&printed).is_some_and(|rate| rate > 0.0), "{printed}");
        assert!(printed.contains("the run was interrupted before its end"), "{printed}");
        assert!(is_interrupted, "the file says so");
        assert_eq!(output.status.code(), Some(1), "{printed}");
    }
}

#[test]
fn a_rate_that_was_asked_for_and_missed_is_told() {
    let server = Server::start(&[]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("results.json");
    // No connection has so many replies in a second, one by one.
    for (rate, is_missed) in [("100000000", true), ("20", false)] {
        let words = ["--test-time", "2", "--rate-limiting", rate];
        let output = bench(&server, &file, &words).output().expect("it runs");
        let (printed, is_interrupted) = said(&output, &file);
        let is_told = printed.contains("the rate asked for was missed");
        assert!(is_told || !is_missed, "{rate}: {printed}");
        assert!(!is_interrupted, "the file says that it was not");
        assert_eq!(output.status.code(), Some(0), "{printed}");
    }
}
