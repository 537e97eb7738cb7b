//! What the process says when a signal ends it, and when somebody asks what its threads are at.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use proto::value::Value;
use rustix::process::Signal;
use tests::Server;
use tests::server::eventually;

const DEBUG: [&str; 2] = ["--enable-debug-command", "local"];

/// A server that may crash, with these further arguments.
fn start(arguments: &[&str]) -> Server {
    let mut server = Server::start(&[&DEBUG, arguments].concat());
    server.may_panic();
    server
}

/// How a server ended: by a signal, or with a status.
#[derive(Debug, PartialEq)]
enum End {
    By(Signal),
    With(i32),
}

/// Waits for the end of a server that is about to crash: how it ended, and all it has said.
fn end_of(mut server: Server) -> (End, String) {
    eventually("the server ends", || server.has_ended());
    let log = server.log();
    let status = server.wait();
    let signal = status.signal().and_then(Signal::from_named_raw);
    let end = signal.map_or_else(|| End::With(status.code().unwrap()), End::By);
    (end, log)
}

/// Has a server crash by a command.
fn crash(server: Server, words: &[&str]) -> (End, String) {
    server.client().send(words);
    end_of(server)
}

#[track_caller]
fn holds(log: &str, texts: &[&str]) {
    for text in texts {
        assert!(log.contains(text), "no {text:?} in the log:\n{log}");
    }
}

/// What every report has, in this order.
const OF_ALL: [&str; 14] = [
    "=== APUS BUG REPORT START",
    " crashed by signal: ",
    "------ REGISTERS ------",
    "------ STACK TRACE ------",
    "------ CURRENT CLIENT INFO ------",
    "------ NAMES AND LINES: thread ",
    "------ THREADS ------",
    "------ VERSIONS ------",
    "------ INFO OUTPUT: Server ------",
    "redis_version:",
    "------ INFO OUTPUT: Commandstats ------",
    "------ INFO OUTPUT: Keysizes ------",
    "=== APUS BUG REPORT END",
    "Please send this to those who maintain Apus",
];

/// Asserts that the log has one report, whole and in order.
#[track_caller]
fn reports_once(log: &str) {
    let places: Vec<_> = OF_ALL.iter().map(|text| log.find(text)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}:\n{log}");
    assert_eq!(log.matches("crashed by signal").count(), 1, "{log}");
    assert!(!log.contains("It does not answer") && !log.contains(" is left out"), "{log}");
}

#[test]
fn a_fault_is_reported_with_names_and_lines_and_what_was_served() {
    let (end, log) = crash(start(&["--worker-threads", "2"]), &["DEBUG", "SEGFAULT"]);
    assert_eq!(end, End::By(Signal::SEGV));
    reports_once(&log);
    holds(&log, &["crashed by signal: 11, si_code: ", "Accessing address: 0x"]);
    holds(&log, &["serving client id=", "cmd=debug", "arguments: 2 of 13 bytes together"]);
    // Of the thread that crashed, and of others, which slept.
    holds(&log, &["debug::crash::segfault at ", "debug/crash.rs:", "(worker-0)", "(worker-1)"]);
    holds(&log, &["(apus), sleeping", "start at ", "start.rs:"]);
}

/// As the kernel sends them, or an operator that wants to know.
#[test]
fn every_signal_that_ends_the_process_is_reported() {
    for signal in [Signal::SEGV, Signal::BUS, Signal::FPE, Signal::ILL, Signal::ABORT] {
        let server = start(&["--hide-user-data-from-log", "no"]);
        server.signal(signal);
        let (end, log) = end_of(server);
        assert_eq!(end, End::By(signal));
        reports_once(&log);
        let number = signal.as_raw();
        holds(&log, &[&format!("crashed by signal: {number}, si_code: 0"), "Killed by PID: "]);
        holds(&log, &["none: the thread served nobody"]);
    }
}

/// All threads stop, whatever they are at.
#[test]
fn a_crash_under_load_is_reported_whole() {
    let server = start(&["--worker-threads", "4", "--appendonly", "yes"]);
    let port = server.port();
    let load = move |number: usize| {
        let mut client = tests::Client::connect(port);
        let key = format!("k{number}");
        let commands =
            [["SET", &key, "v"].map(str::to_owned), ["GET", &key, ""].map(str::to_owned)];
        let pipeline: Vec<Vec<u8>> =
            (0..64).map(|at| tests::client::encode(&commands[at % 2])).collect();
        let pipeline = pipeline.concat();
        // The client goes on until it is closed.
        while client.try_send_raw(&pipeline).is_ok() && client.try_call(&["PING"]).is_ok() {}
    };
    let loads: Vec<_> = (0..8).map(|number| std::thread::spawn(move || load(number))).collect();
    let mut admin = server.client();
    eventually("there is load", || admin.figure("total_commands_processed") > 1000);
    let (end, log) = crash(server, &["DEBUG", "SEGFAULT"]);
    // What the load met at the end is no matter.
    loads.into_iter().for_each(|load| drop(load.join()));
    assert_eq!(end, End::By(Signal::SEGV));
    reports_once(&log);
}

#[test]
fn what_clients_sent_is_shown_only_where_that_is_asked_for() {
    for (hides, is_shown) in [("yes", false), ("no", true)] {
        let server = start(&["--hide-user-data-from-log", hides]);
        let (end, log) = crash(server, &["DEBUG", "ASSERT", "a\nsecret"]);
        assert_eq!(end, End::By(Signal::ABORT));
        reports_once(&log);
        holds(&log, &["=== ASSERTION FAILED ===", "is not true", "cmd=debug"]);
        assert_eq!(log.contains("argv[2] (8 bytes): \"a\\nsecret\""), is_shown, "{log}");
        assert_eq!(log.contains(" laddr="), is_shown, "the client's line");
    }
    let (_, log) = crash(start(&[]), &["DEBUG", "ASSERT", "secret"]);
    assert!(!log.contains("secret"), "by default it is hidden:\n{log}");
}

#[test]
fn a_panic_ends_the_process_as_it_is_told_to() {
    for (exits, expected) in [("no", End::By(Signal::ABORT)), ("yes", End::With(1))] {
        for (words, text) in [
            (&["DEBUG", "PANIC"][..], "Guru Meditation: called by Unit test #"),
            (&["EVAL", "return redis.call('SET', 'k', 'v')", "0"], "panicked at "),
        ] {
            let server = start(&["--use-exit-on-panic", exits, "--appendonly", "yes"]);
            server.client().call(&["DEBUG", "FAILPOINT", "PANIC-BEHIND-COMMIT"]);
            let (end, log) = crash(server, words);
            assert_eq!(end, expected, "{words:?}");
            reports_once(&log);
            holds(&log, &[text, "crashed by signal: 6", "The process asked for its own end"]);
        }
    }
    // A signal from outside is no panic.
    let server = start(&["--use-exit-on-panic", "yes"]);
    server.signal(Signal::ABORT);
    assert_eq!(end_of(server).0, End::By(Signal::ABORT));
}

#[test]
fn reports_can_be_turned_off() {
    let server = start(&["--crash-log-enabled", "no", "--use-exit-on-panic", "yes"]);
    let (end, log) = crash(server, &["DEBUG", "PANIC"]);
    assert_eq!(end, End::With(1));
    assert!(!log.contains("crashed by signal"), "{log}");
    let server = start(&[]);
    server.client().call(&["CONFIG", "SET", "crash-log-enabled", "no"]);
    let (end, log) = crash(server, &["DEBUG", "SEGFAULT"]);
    assert_eq!(end, End::By(Signal::SEGV));
    assert!(!log.contains("crashed by signal"), "{log}");
}

/// A thread whose stack is used up hears the signal on another one.
#[test]
fn a_stack_that_is_used_up_is_reported() {
    let (end, log) = crash(start(&[]), &["DEBUG", "FAILPOINT", "DEEP"]);
    assert_eq!(end, End::By(Signal::SEGV));
    reports_once(&log);
    holds(&log, &["next to the stack, which may be used up", "deep at ", "cmd=debug"]);
}

/// What goes wrong in a report is told, and the process ends as it would have.
#[test]
fn a_report_that_fails_ends_with_what_it_has() {
    for (step, is_whole) in [("1", false), ("2", true)] {
        let server = start(&[]);
        server.client().call(&["DEBUG", "FAILPOINT", "PANIC-IN-REPORT", step]);
        let (end, log) = crash(server, &["DEBUG", "SEGFAULT"]);
        assert_eq!(end, End::By(Signal::SEGV));
        holds(&log, &["crashed by signal: 11", "------ NAMES AND LINES", "PanicInReport"]);
        holds(&log, &["APUS BUG REPORT END"]);
        // In a part, or in the thread that tells them.
        let is_told = log.contains("It cannot be told: what it needs is held by a thread");
        let is_over = log.contains("meanwhile, in the thread that tells the rest");
        assert_eq!((is_told, is_over), (is_whole, !is_whole), "{log}");
        assert_eq!(log.contains("INFO OUTPUT: Keysizes"), is_whole, "{log}");
    }
}

/// A log for programs stays one.
#[test]
fn a_report_in_a_structured_log_is_lines_of_it() {
    let server = start(&["--log-format", "json", "--debug-context", "a \"b\""]);
    let (_, log) = crash(server, &["DEBUG", "SEGFAULT"]);
    reports_once(&log);
    let messages: Vec<String> = log
        .lines()
        .map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).expect(line);
            line["message"].as_str().expect("it has a message").to_owned()
        })
        .collect();
    let place = messages.iter().position(|it| it == "------ DEBUG CONTEXT ------").unwrap();
    assert_eq!(messages[place + 1], "a \"b\"");
}

#[test]
fn an_alarm_prints_all_stacks_and_the_server_goes_on() {
    let mut server = start(&["--worker-threads", "2", "--crash-log-enabled", "no"]);
    for number in 1..=3 {
        server.signal(Signal::ALARM);
        eventually("the stacks are printed", || {
            server.log().matches("\n--------\n").count() == number
        });
        assert_eq!(server.client().call(&["PING"]), Value::Simple("PONG".into()));
    }
    server.wait_for_log("Received SIGALRM");
    let log = server.log();
    holds(&log, &["(worker-0), ", "(worker-1), ", "(apus), ", "net/worker.rs:"]);
    assert!(!log.contains("It does not answer") && !log.contains("crashed"), "{log}");
    // Such an answer was not asked for.
    server.signal(Signal::USR2);
    assert_eq!(server.client().call(&["PING"]), Value::Simple("PONG".into()));
}

/// The stacks that an alarm prints give way to the report, which has all that others have.
#[test]
fn a_crash_amid_the_stacks_of_an_alarm_is_reported_whole() {
    for delay_ms in [0, 20, 50, 100, 200, 400] {
        let server = start(&["--worker-threads", "2"]);
        server.signal(Signal::ALARM);
        std::thread::sleep(Duration::from_millis(delay_ms));
        let (end, log) = crash(server, &["DEBUG", "SEGFAULT"]);
        assert_eq!(end, End::By(Signal::SEGV));
        holds(&log, &OF_ALL);
        let is_whole = !log.contains("It does not answer") && !log.contains(" is left out");
        assert!(is_whole, "{delay_ms} ms behind the alarm:\n{log}");
    }
}

#[test]
fn a_worker_that_stands_still_is_told_of() {
    let mut server = start(&["--worker-threads", "1"]);
    let mut client = server.client();
    client.call(&["CONFIG", "SET", "watchdog-period", "200"]);
    // For as long as it takes to tell of it; the process ends with the test.
    client.send(&["DEBUG", "FAILPOINT", "STALL", "600000"]);
    server.wait_for_log("--- WATCHDOG TIMER EXPIRED --- (worker-0 stands still)");
    server.wait_for_log("debug/failpoints.rs:");
    server.wait_for_log("serving client id=");
    let told = server.log().matches("(worker-0 stands still)").count();
    assert_eq!(told, 1, "{}", server.log());
}
