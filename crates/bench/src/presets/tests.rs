//! What must be true of presets: their words, and that each runs against a real server.

use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Series;
use super::noise::NoiseKind;
use super::plans::ALL;
use super::words::Words;
use crate::options::{Options, Request, Until};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

/// A redis-server 7.0 that ends with the test.
struct Redis {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Redis {
    fn start(more: &[&str]) -> Redis {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("it is bound").port();
        drop(listener);
        let folder = tempfile::tempdir().expect("a folder");
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""])
            .args(more)
            .arg("--dir")
            .arg(folder.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("redis-server 7.0 is needed on the PATH: cargo xtask setup");
        let end = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < end, "the server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        Redis { process, port, _folder: folder }
    }

    /// Runs a preset against it; the JSON and the page.
    fn run(&self, name: &str, more: &str) -> (Value, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |file: &str| folder.path().join(file).display().to_string();
        let (json, html, text) = (path("json"), path("html"), path("text"));
        let line = format!(
            "-p {} {more} --json-out-file {json} --html-out-file {html} -o {text}",
            self.port
        );
        Series::parse(name, &words(&line)).expect("the words make sense").run().expect("it runs");
        let read = |file: &str| std::fs::read_to_string(file).expect("the file was written");
        let document: Value = serde_json::from_str(&read(&json)).expect("it is JSON");
        for step in steps(&document) {
            let step = step.as_str().expect("a name");
            assert!(read(&text).contains(step), "{step} is not in the table");
        }
        (document, read(&html))
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // The server may have ended by itself; then there is nothing to do.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn steps(document: &Value) -> Vec<&Value> {
    let steps = document["steps"].as_array().expect("a list");
    steps.iter().map(|step| &step["step"]).collect()
}

/// Every step did something, without an error reply.
fn assert_sound(document: &Value) {
    for step in document["steps"].as_array().expect("a list") {
        let types = step["types"].as_array().expect("a list");
        assert!(!types.is_empty(), "{step}");
        for row in types {
            assert!(row["requests"].as_f64().is_some_and(|count| count > 0.0), "{step}");
        }
        assert!(step["server"]["rss_bytes"].as_u64().is_some_and(|rss| rss > 0), "{step}");
        let warnings = step["warnings"].to_string();
        assert!(!warnings.contains("error"), "{warnings}");
    }
}

#[test]
fn own_words_are_taken_and_others_pass_on() {
    let line = "-s a --scale=0.5 -t 3 --noise cpu,disk --test-time 0.25 --steps 10,25 -p 7";
    let read = Words::parse(&words(line)).expect("they make sense");
    assert_eq!(read.rest, words("-s a -t 3 -p 7"));
    assert_eq!((read.common.threads, read.common.port), (3, 7));
    assert_eq!(read.until, Some(Until::Time(Duration::from_millis(250))));
    assert_eq!(read.noise, [NoiseKind::Cpu, NoiseKind::Disk]);
    assert_eq!(read.steps, Some(vec![10.0, 25.0]));
    assert!((read.scale - 0.5).abs() < 1e-9);
    let none = Words::parse(&words("--steps=")).expect("no steps at all");
    assert_eq!(none.steps, Some(Vec::new()));
}

#[test]
fn words_that_make_no_sense_are_refused() {
    let lines = [
        "--scale 0",
        "--scale x",
        "--scale",
        "--noise network",
        "-n 0",
        "--steps 0",
        "--help",
        "--maximum inf",
        "--test-time -1",
        "--nonsense",
    ];
    for line in lines {
        assert!(Words::parse(&words(line)).is_err(), "{line}");
    }
    let Err(message) = Series::parse("nonsense", &[]) else { panic!("there is no such preset") };
    assert!(message.contains("garantia"), "{message}");
}

#[test]
fn the_callers_words_win_over_the_presets() {
    let series = Series::parse("s0-get", &words("-t 2 --pipeline 7 --scale 0.001")).expect("sense");
    let options = series.options("-t 55 -c 30 -d 9", &[], Until::Requests(200_000)).expect("sense");
    assert_eq!((options.threads, options.clients, options.pipeline), (2, 30, 7));
    assert_eq!(options.until, Until::Requests(200));
    assert_eq!(series.count(1_000_000), 1000);
    let own = Series::parse("s0-get", &words("-n 3 --scale 0.001")).expect("sense");
    let options = own.options("", &[], Until::Requests(200_000)).expect("sense");
    assert_eq!(options.until, Until::Requests(3), "what was said is not scaled");
}

#[test]
fn the_lines_of_s0_run_and_their_gets_hit() {
    let redis = Redis::start(&[]);
    for (name, hits) in [("s0-get", true), ("s0-set", false), ("s0-get-p30", true)] {
        let (document, _) = redis.run(name, "--scale 0.001 -t 2 -c 3 -n 200");
        assert_sound(&document);
        let row = &document["steps"][0]["types"][0];
        assert_eq!(row["requests"].as_f64(), Some(1200.0));
        assert_eq!(row["hits_per_second"].as_f64() > Some(0.0), hits, "{row}");
        assert_eq!(row["misses_per_second"].as_f64(), Some(0.0), "{row}");
    }
    let (document, _) = redis.run("s0-set-p30", "--scale 0.0001");
    let requests = &document["steps"][0]["types"][0]["requests"];
    assert_eq!(requests.as_f64(), Some(55.0 * 30.0 * 20.0), "as published but for the scale");
}

#[test]
fn putra_finds_the_maximum_and_follows_the_clock_below_it() {
    let redis = Redis::start(&[]);
    let (document, page) = redis.run("putra", "--scale 0.01 -t 1 -c 4 --steps 10,50");
    assert_sound(&document);
    assert_eq!(steps(&document), ["closed loop", "10%", "50%"]);
    let kinds = document["steps"][1]["types"].as_array().expect("a list");
    let kinds: Vec<&str> = kinds.iter().filter_map(|row| row["type"].as_str()).collect();
    assert_eq!(kinds, ["SET", "GET", "TOTAL"]);
    assert!(document["notes"][0].as_str().is_some_and(|note| note.starts_with("maximum: ")));
    assert!(page.contains("<svg") && page.contains("% of the maximum"));
    let (document, _) = redis.run("putra", "-t 1 -c 4 --maximum 500 --steps 100 --test-time 1");
    let requests = document["steps"][0]["types"][2]["requests"].as_f64().expect("a number");
    assert!((1.0..=501.0).contains(&requests), "{requests} requests in a second of 500");
    assert_eq!(steps(&document), ["100%"], "a given maximum is not measured again");
}

#[test]
fn keydbs_line_is_memtiers_default() {
    let redis = Redis::start(&[]);
    let (document, _) = redis.run("keydb", "--scale 0.0005 -t 2");
    assert_sound(&document);
    let all = &document["steps"][0]["types"][2];
    assert_eq!(all["requests"].as_f64(), Some(2.0 * 50.0 * 5.0));
}

#[test]
fn one_key_is_compared_with_many_for_each_command() {
    let redis = Redis::start(&[]);
    let (document, page) = redis.run("garnet-hotkey", "--scale 0.01 -t 1 -c 2 --test-time 0.3");
    assert_sound(&document);
    assert_eq!(steps(&document).len(), 12);
    assert_eq!(steps(&document)[5], "INCR, uniform keys, pipeline 1");
    assert!(page.contains("<svg"));
}

#[test]
fn garnets_matrix_has_every_batch_of_every_number_of_connections() {
    let redis = Redis::start(&[]);
    let (document, page) = redis.run("garnet", "--scale 0.00001 --test-time 0.01");
    assert_sound(&document);
    assert_eq!(steps(&document).len(), 2 * 8 * 7);
    assert_eq!(page.matches("<h2>few keys (1024)</h2>").count(), 1);
    assert!(page.contains("128 connections") && page.contains("<h2>many keys ("));
}

#[test]
fn garantia_runs_thrice_with_and_without_noise() {
    let redis = Redis::start(&[]);
    let (document, _) =
        redis.run("garantia", "--scale 0.0001 --test-time 0.2 -t 1 --noise cpu,disk");
    assert_sound(&document);
    assert_eq!(steps(&document).len(), 6);
    assert_eq!(steps(&document)[1], "0.00005 GB, noisy neighbours");
    let seconds = document["steps"][0]["seconds"].as_f64().expect("a number");
    assert!(seconds >= 0.6, "three runs of 0.2 s take {seconds} s");
}

#[test]
fn a_server_that_takes_no_writes_is_not_measured_as_if_it_were_full() {
    let full = Redis::start(&["--maxmemory", "1", "--maxmemory-policy", "noeviction"]);
    let line = words(&format!("-p {} --scale 0.001", full.port));
    let series = Series::parse("s0-get", &line).expect("the words make sense");
    let reason = series.run().expect_err("nothing can be filled");
    assert!(reason.contains("could not be filled") && reason.contains("OOM"), "{reason}");
}

#[test]
fn two_servers_are_measured_in_turn_and_told_side_by_side() {
    let (own, rival) = (Redis::start(&[]), Redis::start(&[]));
    let folder = tempfile::tempdir().expect("a folder");
    let path = |file: &str| folder.path().join(file).display().to_string();
    let line = words(&format!(
        "-p {} --against {} -t 1 -c 2 -n 50 --ratio 1:1 --json-out-file {} --html-out-file {} \
         -o {}",
        own.port,
        rival.port,
        path("json"),
        path("html"),
        path("text"),
    ));
    let Ok(Request::Run(options)) = Options::parse(&line) else { panic!("it is a run") };
    assert!(Series::compare(*options, &line).run().expect("both are there"), "all was answered");
    let read = |file: &str| std::fs::read_to_string(path(file)).expect("the file was written");
    let document: Value = serde_json::from_str(&read("json")).expect("it is JSON");
    let steps = document["steps"].as_array().expect("a list");
    assert_eq!(steps.len(), 2);
    for (step, port) in steps.iter().zip([own.port, rival.port]) {
        let name = step["step"].as_str().expect("a name");
        assert!(name.starts_with("Redis 7.0") && name.ends_with(&port.to_string()), "{name}");
        let totals = step["types"].as_array().and_then(|types| types.last()).expect("totals");
        assert_eq!(totals["requests"].as_f64(), Some(100.0), "the mean of three runs");
        assert!(read("text").contains(name) && read("html").contains(name));
    }
    let note = document["notes"][0].as_str().expect("the ratios");
    assert!(note.contains("requests per second") && note.contains("p99.9"), "{note}");
    assert!(read("text").contains(note));
}

#[test]
fn every_preset_has_help() {
    let all = super::help();
    for preset in ALL {
        assert!(all.contains(preset.name));
        let own = super::help_of(preset.name).expect("there is such a preset");
        assert!(own.contains(preset.about) && own.contains("--scale"), "{own}");
    }
    assert!(super::help_of("nonsense").is_err());
}

#[test]
fn every_preset_says_what_it_is() {
    for preset in ALL {
        assert!(!preset.about.is_empty());
        let same = ALL.iter().filter(|other| other.name == preset.name).count();
        assert_eq!(same, 1, "{}", preset.name);
    }
}
