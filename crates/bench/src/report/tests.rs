//! Every form of report, of runs that were made up: what readers of memtier's output look for.

pub(super) mod html;
mod json;

use std::time::{Duration, SystemTime};

use super::summary::Summary;
use super::{files, publish, sections, table, text, warnings};
use crate::options::{
    DataSize, KeyPattern, Keys, Load, Mix, Options, Output, Protocol, Until, Values, Verify,
};
use crate::outcome::{
    CommandOutcome, GeneratorUsage, LATENCY_MAX_US, Outcome, Second, ServerUsage, new_latencies,
};

/// The options of a plain run, nothing printed but the tables.
pub(crate) fn options() -> Options {
    Options {
        silence_limit: Duration::from_secs(60),
        against: Vec::new(),
        server: "127.0.0.1".into(),
        port: 6379,
        unix_socket: None,
        family: None,
        encryption: None,
        protocol: Protocol::Redis,
        authenticate: Some((None, "verysecret".into())),
        database: 0,
        threads: 4,
        clients: 50,
        until: Until::Requests(10_000),
        pipeline: 1,
        reconnect_interval: None,
        rate_limit: None,
        open_loop: None,
        ramp: None,
        cluster: false,
        run_count: 1,
        load: Load {
            mix: Mix::Ratio { set: 1, get: 10 },
            wait: None,
            keys: Keys {
                prefix: b"memtier-".to_vec(),
                minimum: 0,
                maximum: 10_000_000,
                patterns: (KeyPattern::Random, KeyPattern::Random),
                median: None,
                stddev: None,
                zipf_exponent: 1.0,
            },
            values: Values { size: DataSize::Fixed(32), offset: 0, random: false, expiry: None },
            multi_key_get: 0,
            verify: Verify::No,
            distinct_client_seed: false,
            randomize: false,
        },
        output: Output {
            file: None,
            json: None,
            html: None,
            hdr_prefix: None,
            client_stats: None,
            hide_histogram: true,
            percentiles: vec![50.0, 99.0, 99.9],
            all_runs: false,
            show_config: false,
            debug: false,
            statsd: None,
            progress: false,
        },
    }
}

/// Two seconds of `per_second` requests that took 1 to `per_second` times `step_us`.
pub(super) fn command(name: &str, per_second: u64, step_us: u64) -> CommandOutcome {
    let mut command = CommandOutcome::new(name);
    for _ in 0..2 {
        let mut second = Second {
            latencies: new_latencies(),
            latency_sum: 0,
            bytes_sent: per_second * 64,
            bytes_received: per_second * 32,
            hits: 0,
            misses: 0,
        };
        for number in 1..=per_second {
            second.latencies.record(number * step_us).expect("below a minute");
            second.latency_sum += number * step_us;
        }
        if name == "Gets" {
            (second.hits, second.misses) = (per_second * 3 / 4, per_second / 4);
        }
        command.latencies.add(&second.latencies).expect("of one range");
        command.hits += second.hits;
        command.misses += second.misses;
        command.bytes_sent += second.bytes_sent;
        command.bytes_received += second.bytes_received;
        command.seconds.push(second);
    }
    command
}

/// Two seconds: 200 sets of up to 1 ms and 2,000 gets of up to 2 ms.
pub(super) fn outcome() -> Outcome {
    let started = SystemTime::UNIX_EPOCH + Duration::from_millis(1_730_996_277_188);
    Outcome {
        refused: 0,
        unsent: 0,
        interrupted: false,
        server_name: Some("Redis 8.2.3".into()),
        started,
        finished: started + Duration::from_secs(2),
        elapsed: Duration::from_secs(2),
        commands: vec![command("Sets", 100, 10), command("Gets", 1000, 2)],
        connection_errors: 0,
        verify_errors: 0,
        late: 0,
        generator: GeneratorUsage {
            cpu: Duration::from_millis(11),
            busiest_thread: 0.42,
            starved_thread: 0.0,
        },
        server: Some(ServerUsage {
            pid: 4711,
            user: Duration::from_millis(440),
            system: Duration::from_millis(660),
            rss: 9 << 20,
        }),
        clients: Vec::new(),
    }
}

/// The text of these runs.
fn printed(options: &Options, outcomes: &[Outcome]) -> String {
    let summaries: Vec<Summary> =
        outcomes.iter().map(|outcome| Summary::new(options, outcome)).collect();
    let average = Summary::average(&summaries);
    let sections = sections(options, outcomes, &summaries, average.as_ref());
    text(options, outcomes, &summaries, &sections)
}

#[test]
fn one_run_is_printed_as_memtier_prints_it() {
    let head = "\
4         Threads
50        Connections per thread
10000     Requests per client


ALL STATS
";
    let rule = 8 + 1 + 12 + 13 + 13 + 4 * 16 + 13;
    let table = format!(
        "{}\n\
         Type         Ops/sec     Hits/sec   Misses/sec    Avg. Latency     p50 Latency     \
         p99 Latency   p99.9 Latency       KB/sec \n{}\n\
         Sets          100.00          ---          ---         0.50500         0.50000         \
         0.99000         1.00000         9.38 \n\
         Gets         1000.00       750.00       250.00         1.00100         1.00000         \
         1.98000         1.99800        93.75 \n\
         Waits           0.00          ---          ---             ---             --- \
         \x20           ---             ---          --- \n\
         Totals       1100.00       750.00       250.00         0.95591         0.91800         \
         1.97800         1.99800       103.12 \n\n\n",
        "=".repeat(rule),
        "-".repeat(rule),
    );
    let ours = "\
Server CPU      500.000 us per request (user 200.000, system 300.000; pid 4711)
Server RSS      9.00MB
Generator CPU   5.000 us per request (busiest thread 42% busy)
";
    assert_eq!(printed(&options(), &[outcome()]), format!("{head}{table}{ours}"));
}

#[test]
fn a_cluster_shows_redirections_and_a_time_its_seconds() {
    let mut options = options();
    options.cluster = true;
    options.until = Until::Time(Duration::from_secs(60));
    let text = printed(&options, &[outcome()]);
    assert!(text.contains("60        Seconds\n"), "{text}");
    assert!(text.contains("   Misses/sec    MOVED/sec      ASK/sec    Avg. Latency"), "{text}");
}

#[test]
fn the_distribution_is_shown_unless_hidden() {
    let mut options = options();
    options.output.hide_histogram = false;
    let text = printed(&options, &[outcome()]);
    let start = format!(
        "Request Latency Distribution\nType     <= msec         Percent\n{}\n\
         SET       0.010        0.000\nSET       0.050        5.000\n",
        "-".repeat(72),
    );
    assert!(text.contains(&start), "{text}");
    assert!(text.contains("SET       1.000      100.000\n---\nGET       0.002        0.000\n"));
    assert!(text.contains("GET       2.000      100.000\n---\n"), "{text}");
    assert!(!printed(&self::options(), &[outcome()]).contains("Distribution"));
}

#[test]
fn several_runs_show_the_best_the_worst_and_the_mean() {
    let mut slow = outcome();
    slow.elapsed = Duration::from_secs(4);
    let mut options = options();
    let text = printed(&options, &[slow.clone(), outcome()]);
    let totals: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("RESULTS") || line.starts_with("Totals"))
        .map(|line| line.split("      ").next().expect("split gives one at least"))
        .map(str::trim)
        .collect();
    let expected = ["BEST RUN RESULTS", "WORST RUN RESULTS", "AGGREGATED AVERAGE RESULTS (2 runs)"];
    assert_eq!([totals[0], totals[2], totals[4]], expected);
    let rate = |title: &str| {
        let table = &text[text.find(title).expect("the title is there")..];
        let totals = table.lines().find(|line| line.starts_with("Totals")).expect("it has totals");
        totals.split_whitespace().nth(1).expect("a rate").to_owned()
    };
    assert_eq!(expected.map(rate), ["1100.00", "550.00", "825.00"]);
    options.output.all_runs = true;
    let text = printed(&options, &[slow, outcome()]);
    assert!(text.contains("RUN #1 RESULTS\n=") && text.contains("RUN #2 RESULTS\n="), "{text}");
}

#[test]
fn commands_of_one_name_are_one_row_and_long_names_keep_the_columns_straight() {
    let mut options = options();
    options.load.mix = Mix::Commands(Vec::new());
    let mut outcome = outcome();
    outcome.commands =
        vec![command("Hsets", 10, 1), command("Zrangebyscores", 10, 1), command("Hsets", 30, 1)];
    let text = printed(&options, &[outcome]);
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("---     ")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(rows[0].starts_with("Hsets                40.00 "), "{text}");
    assert!(rows[1].starts_with("Zrangebyscores       10.00 "), "{text}");
    assert!(!text.contains("Waits"), "{text}");
}

#[test]
fn a_saturated_generator_and_lost_requests_are_told() {
    let mut options = options();
    let mut outcome = outcome();
    assert!(warnings::of_run(&options, &outcome).is_empty());
    outcome.generator.busiest_thread = 0.97;
    outcome.late = 5;
    outcome.verify_errors = 1;
    outcome.commands[0].errors = 2;
    outcome.commands[0].first_error = Some("OOM no room".into());
    let said = warnings::of_run(&options, &outcome);
    assert!(said[0].contains("the generator was the limit") && said[0].contains("97%"), "{said:?}");
    let errors = "2 error replies of Sets, the first: OOM no room";
    assert_eq!(said[1..], [errors, "1 value was not what was written"]);
    options.open_loop = Some(1000.0);
    let said = warnings::of_runs(&options, &[outcome.clone(), outcome]);
    assert!(said[1].starts_with("run 1: 5 requests were sent late"), "{said:?}");
    assert_eq!(said.len(), 8);
}

#[test]
fn what_got_no_reply_a_starved_generator_and_a_missed_rate_are_told() {
    let mut options = options();
    let mut outcome = outcome();
    outcome.generator.starved_thread = 0.34;
    outcome.unsent = 1;
    outcome.refused = 2;
    outcome.connection_errors = 1;
    outcome.interrupted = true;
    for age in [5_000, 9_000, 9_000] {
        outcome.commands[0].unanswered.record(age).expect("it is in the range");
    }
    let replies: u64 = outcome.commands.iter().map(|command| command.latencies.len()).sum();
    let rate = replies as f64 / outcome.elapsed.as_secs_f64();
    let connections = u64::from(options.threads * options.clients);
    options.rate_limit = Some((rate * 2.0 / connections as f64).ceil() as u64);
    let said = warnings::of_run(&options, &outcome);
    assert!(said[0].contains("waited for a core for 34% of the time"), "{said:?}");
    assert!(said[1].starts_with("the rate asked for was missed"), "{said:?}");
    let counts = [
        "1 request was due and never sent",
        "2 requests got no reply",
        "1 connection was lost",
        "2 attempts to connect failed",
        "the run was interrupted before its end",
    ];
    assert_eq!(said[2..], counts);
}

/// What is longer than an hour is not shown as it is, and no reader is to believe that it was.
#[test]
fn a_latency_that_is_cut_to_an_hour_is_told() {
    let (options, mut outcome) = (options(), outcome());
    outcome.commands[0].latencies.record(LATENCY_MAX_US / 2).expect("it is in the range");
    assert!(warnings::of_run(&options, &outcome).is_empty());
    outcome.commands[0].latencies.record(LATENCY_MAX_US).expect("it is in the range");
    let said = warnings::of_run(&options, &outcome);
    assert_eq!(said, ["1 latency was an hour or longer and counted as an hour"]);
    outcome.commands[1].unanswered.record(LATENCY_MAX_US).expect("it is in the range");
    let said = warnings::of_run(&options, &outcome);
    let hours = "2 latencies were an hour or longer and counted as an hour".to_owned();
    assert!(said.contains(&hours), "{said:?}");
}

#[test]
fn what_got_no_reply_is_in_the_latencies_and_not_in_the_rate() {
    let answered = outcome();
    let mut stalled = outcome();
    let sets = stalled.commands[0].latencies.len();
    stalled.commands[0].unanswered.record_n(5_000_000, sets).expect("it is in the range");
    let (before, after) = (Summary::new(&options(), &answered), Summary::new(&options(), &stalled));
    assert_eq!(after.totals.ops, before.totals.ops);
    assert_eq!(after.totals.count, before.totals.count);
    assert!(after.rows[0].percentile(75.0) > 4_900.0, "half of them are five seconds old");
    assert!(after.rows[0].average() > 2_000.0);
}

#[test]
fn a_run_of_nothing_is_printed_without_dividing_by_zero() {
    let mut nothing = outcome();
    nothing.elapsed = Duration::ZERO;
    nothing.commands.clear();
    nothing.server = None;
    let text = printed(&options(), &[nothing]);
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}

#[test]
fn a_few_ticks_of_cpu_are_not_divided_into_modes() {
    let mut short = outcome();
    short.server = Some(ServerUsage {
        pid: 4711,
        user: Duration::from_millis(11),
        system: Duration::ZERO,
        rss: 9 << 20,
    });
    let text = printed(&options(), &[short]);
    assert!(text.contains("Server CPU      5.000 us per request (pid 4711)\n"), "{text}");
}

#[test]
fn byte_counts_are_written_as_memtier_writes_them() {
    let cases = [(0.0, "0B"), (1023.0, "1023B"), (1536.0, "1.50KB"), (441.4e6, "420.95MB")];
    for (count, text) in cases {
        assert_eq!(table::bytes(count), text);
    }
}

#[test]
fn percentile_files_have_memtiers_names_and_hdrhistograms_columns() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut options = options();
    options.output.hdr_prefix = Some(folder.path().join("run"));
    let (outcome, summary) = (outcome(), Summary::new(&options, &outcome()));
    files::write_run(&options, &outcome, &summary, 1).expect("the folder takes files");
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be read").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let expected = [
        "run_FULL_RUN_1.hgrm",
        "run_FULL_RUN_1.txt",
        "run_GET_command_run_1.hgrm",
        "run_GET_command_run_1.txt",
        "run_SET_command_run_1.hgrm",
        "run_SET_command_run_1.txt",
    ];
    assert_eq!(names, expected);
    let text = std::fs::read_to_string(folder.path().join("run_SET_command_run_1.txt"))
        .expect("it was written");
    let lines: Vec<Vec<&str>> =
        text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]);
    assert_eq!(lines[2], ["0.010", "0.000000000000", "2", "1.00"]);
    let last = lines.iter().rfind(|line| line.len() == 4).expect("a last row");
    assert_eq!(*last, ["1.000", "1.000000000000", "200", "inf"]);
    assert!(
        text.contains("\n#[Mean    =        0.505, StdDeviation   =        0.289]\n"),
        "{text}"
    );
}

#[test]
fn connections_have_a_csv_file_each_with_gets_before_all_distributions() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut options = options();
    options.clients = 1;
    options.output.client_stats = Some(folder.path().join("client"));
    let mut outcome = outcome();
    outcome.clients = vec![outcome.commands.clone(), outcome.commands.clone()];
    let summary = Summary::new(&options, &outcome);
    files::write_run(&options, &outcome, &summary, 1).expect("the folder takes files");
    assert!(folder.path().join("client-1-1-0.csv").exists());
    let text = std::fs::read_to_string(folder.path().join("client-1-0-0.csv")).expect("written");
    let seconds = "\
Per-Second Benchmark Data
Second,SET Requests,SET Average Latency,SET Total Bytes,SET Total Bytes TX,SET Total Bytes RX,\
GET Requests,GET Average Latency,GET Total Bytes,GET Total Bytes TX,GET Total Bytes RX,GET Misses,\
GET Hits,WAIT Requests,WAIT Average Latency
0,100,0.000505,9600,6400,3200,1000,0.001001,96000,64000,32000,250,750,0,0.000000
1,100,0.000505,9600,6400,3200,1000,0.001001,96000,64000,32000,250,750,0,0.000000

Full-Test GET Latency
Latency (<= msec),Percent
0.002,0.00
";
    assert!(text.starts_with(seconds), "{text}");
    assert!(text.contains("\nFull-Test SET Latency\nLatency (<= msec),Percent\n0.010,0.00\n"));
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let mut options = options();
    options.output.file = Some("/nowhere/at/all".into());
    let error = publish(&options, &[outcome()]).expect_err("there is no such folder");
    assert!(error.starts_with("cannot write /nowhere/at/all: "), "{error}");
}
