//! The engine of `apus bench` against servers that count, wait, stall, cut and lie: the instrument
//! is tested before it measures. Lower bounds of times are exact; upper ones are generous.

mod cluster;
mod server;

use std::sync::{Arc, Mutex, RwLock};
use std::thread;
use std::time::Duration;

use bench::engine;
use bench::options::Options;
use bench::outcome::{CommandOutcome, Outcome};
use server::{Act, Manner, Server, Words, bulk};

fn run(options: &Options) -> Outcome {
    let mut outcomes = engine::run(options).expect("the run succeeds");
    assert_eq!(outcomes.len(), 1);
    outcomes.remove(0)
}

fn command<'a>(outcome: &'a Outcome, name: &str) -> &'a CommandOutcome {
    let found = outcome.commands.iter().find(|command| command.name == name);
    found.expect("a kind of request of this workload")
}

fn replies(outcome: &Outcome) -> u64 {
    outcome.commands.iter().map(|command| command.latencies.len()).sum()
}

/// Replies that took at least so many milliseconds.
fn slower_than(outcome: &Outcome, millis: u64) -> u64 {
    let slow = |command: &CommandOutcome| {
        command.latencies.count_between(millis * 1000, u64::from(u32::MAX))
    };
    outcome.commands.iter().map(slow).sum()
}

fn is(words: &Words, command: &str) -> bool {
    words[0] == command.as_bytes()
}

#[test]
fn percentiles_are_those_of_the_server() {
    let server = Server::start(Manner::AtOnce, |seen, _| {
        let millis = if seen.requests() % 10 == 0 { 20 } else { 2 };
        thread::sleep(Duration::from_millis(millis));
        Act::Serve
    });
    let outcome = run(&server.options("-t 2 -c 2 -n 100 --ratio 1:0"));
    let latencies = &command(&outcome, "Sets").latencies;
    assert_eq!(latencies.len(), 400);
    assert!(latencies.min() >= 2000, "no reply is faster than the server");
    let (p50, p95) = (latencies.value_at_quantile(0.5), latencies.value_at_quantile(0.95));
    assert!((2000..18_000).contains(&p50), "p50 is {p50} us");
    assert!((20_000..200_000).contains(&p95), "p95 is {p95} us");
    assert!(slower_than(&outcome, 20) >= 40, "each tenth takes 20 ms");
}

#[test]
fn what_is_counted_is_what_the_server_saw() {
    let server = Server::storing();
    let outcome = run(&server.options("-t 2 -c 3 -n 500 --pipeline 7 --ratio 1:3"));
    assert_eq!((replies(&outcome), server.seen.requests()), (3000, 3000));
    let (sets, gets) = (command(&outcome, "Sets"), command(&outcome, "Gets"));
    assert_eq!((sets.latencies.len(), gets.latencies.len()), (750, 2250));
    assert_eq!(gets.hits + gets.misses, 2250);
    assert_eq!(sets.bytes_received, 750 * 5);
    assert_eq!(sets.errors + gets.errors + outcome.connection_errors, 0);
    assert_eq!(server.seen.connections(), 6);
    let of_seconds = |command: &CommandOutcome| {
        command.seconds.iter().map(|second| second.latencies.len()).sum::<u64>()
    };
    assert_eq!((of_seconds(sets), of_seconds(gets)), (750, 2250));
    assert!(outcome.generator.cpu > Duration::ZERO && outcome.generator.busiest_thread <= 1.0);
}

#[test]
fn a_limited_rate_is_never_exceeded() {
    let server = Server::storing();
    let outcome = run(&server.options("-t 1 -c 3 -n 20 --rate-limiting 100"));
    assert_eq!((replies(&outcome), server.seen.requests()), (60, 60));
    // The twentieth request of a connection is due 190 ms after its first.
    assert!(outcome.elapsed >= Duration::from_millis(189), "{:?}", outcome.elapsed);
}

#[test]
fn an_open_loop_follows_the_clock() {
    let server = Server::storing();
    let outcome = run(&server.options("-t 2 -c 3 -n 50 --open-loop 1000"));
    assert_eq!((replies(&outcome), server.seen.requests()), (300, 300));
    assert!(outcome.elapsed >= Duration::from_millis(298), "{:?}", outcome.elapsed);
}

/// A store that stands still for half a second, once, at its two-hundredth request.
fn stalling() -> Server {
    let gate = RwLock::new(());
    Server::start(Manner::AtOnce, move |seen, _| {
        if seen.requests() == 200 {
            let _closed = gate.write();
            thread::sleep(Duration::from_millis(500));
        } else {
            drop(gate.read());
        }
        Act::Serve
    })
}

#[test]
fn an_open_loop_shows_a_stall_that_a_closed_one_hides() {
    let open = run(&stalling().options("-t 1 -c 8 -n 125 --open-loop 1000"));
    assert_eq!(replies(&open), 1000);
    // Five hundred requests were due in the stall, four hundred of them 100 ms before its end.
    assert!(slower_than(&open, 100) >= 300, "{} were slow", slower_than(&open, 100));
    assert!(open.late >= 300, "{} were late", open.late);

    let closed = run(&stalling().options("-t 1 -c 8 -n 125"));
    let slow = slower_than(&closed, 100);
    assert!((1..=16).contains(&slow), "one per connection is slow, not {slow}");
    assert_eq!(closed.late, 0);
}

#[test]
fn a_pipeline_is_full_and_never_more() {
    let server = Server::start(Manner::AfterSilence, |_, _| Act::Serve);
    let outcome = run(&server.options("-t 1 -c 2 -n 100 --pipeline 9"));
    assert_eq!(replies(&outcome), 200);
    assert_eq!(server.seen.most_unanswered(), 9);
}

#[test]
fn all_keys_are_written_once() {
    let server = Server::storing();
    let words = "-t 2 -c 2 -n allkeys --ratio 1:0 --key-pattern P:P --key-minimum 5";
    let outcome = run(&server.options(&format!("{words} --key-maximum 1004 --pipeline 3")));
    assert_eq!(replies(&outcome), 1000);
    let writes = server.seen.writes();
    assert_eq!(writes.len(), 1000);
    assert!(writes.values().all(|values| values.len() == 1));
}

#[test]
fn a_verification_finds_a_changed_and_a_lost_value() {
    let words = "-t 2 -c 2 -n allkeys --ratio 1:0 --key-pattern P:P --key-minimum 1 \
        --key-maximum 300 -R -d 40 --data-verify";
    assert_eq!(run(&Server::storing().options(words)).verify_errors, 0);

    let lying = Server::start(Manner::AtOnce, |seen, words| {
        let stored = seen.writes().get(&words[1]).and_then(|values| values.last()).cloned();
        match (&*words[1], stored) {
            (b"memtier-77", Some(mut value)) if is(words, "GET") => {
                value[20] ^= 1;
                Act::Reply(bulk(Some(&value)))
            }
            (b"memtier-78", _) if is(words, "GET") => Act::Reply(bulk(None)),
            _ => Act::Serve,
        }
    });
    assert_eq!(run(&lying.options(words)).verify_errors, 2);
}

#[test]
fn verifying_alone_reads_and_compares() {
    let server = Server::storing();
    let range = "-t 1 -c 2 --key-minimum 1 --key-maximum 100 -R";
    let write = "-n allkeys --ratio 1:0 --key-pattern P:P --data-verify";
    run(&server.options(&format!("{range} {write}")));
    let outcome = run(&server.options(&format!("{range} --verify-only")));
    assert_eq!((outcome.verify_errors, command(&outcome, "Gets").hits), (0, 100));
    let value = b"something else".to_vec();
    server.seen.writes().insert(b"memtier-50".to_vec(), vec![value]);
    assert_eq!(run(&server.options(&format!("{range} --verify-only"))).verify_errors, 1);
}

#[test]
fn replies_cut_at_every_byte_count_the_same() {
    let whole = Server::storing();
    let cut = Server::start(Manner::ByteByByte, |_, _| Act::Serve);
    let words = "-t 1 -c 1 -n 200 --pipeline 4 --ratio 1:1 --key-maximum 20 --key-minimum 1";
    for words in [words.to_owned(), format!("{words} --multi-key-get 5")] {
        let (one, other) = (run(&whole.options(&words)), run(&cut.options(&words)));
        assert_eq!(replies(&one), 200);
        for (one, other) in one.commands.iter().zip(&other.commands) {
            assert_eq!(one.latencies.len(), other.latencies.len());
            assert_eq!((one.hits, one.misses), (other.hits, other.misses));
            assert_eq!(one.bytes_received, other.bytes_received);
        }
    }
}

#[test]
fn connections_are_made_anew_as_often_as_asked() {
    let server = Server::storing();
    let outcome = run(&server.options("-t 1 -c 2 -n 100 --reconnect-interval 10 --pipeline 4"));
    assert_eq!((replies(&outcome), outcome.connection_errors), (200, 0));
    assert_eq!(server.seen.connections(), 20);
}

#[test]
fn a_lost_connection_is_counted_and_replaced() {
    let server = Server::start(Manner::AtOnce, |seen, _| {
        if seen.requests() % 50 == 0 { Act::Hang } else { Act::Serve }
    });
    let outcome = run(&server.options("-t 1 -c 2 -n 200"));
    assert_eq!((outcome.connection_errors, outcome.unanswered()), (8, 8));
    assert_eq!(outcome.errors(), 0, "a lost request is no error reply");
    assert_eq!(replies(&outcome), 392);
}

#[test]
fn error_replies_are_counted() {
    let server = Server::start(Manner::AtOnce, |_, words| {
        if is(words, "GET") { Act::Reply(b"-ERR no\r\n".to_vec()) } else { Act::Serve }
    });
    let outcome = run(&server.options("-t 1 -c 1 -n 110"));
    let gets = command(&outcome, "Gets");
    assert_eq!((gets.errors, gets.hits, gets.misses, gets.latencies.len()), (100, 0, 0, 100));
}

#[test]
fn a_greeting_comes_before_the_first_request_of_each_connection() {
    let log = Arc::new(Mutex::new(Vec::new()));
    let writer = Arc::clone(&log);
    let server = Server::start(Manner::AtOnce, move |_, words| {
        writer.lock().expect("nobody panics").push(words.join(&b' '));
        Act::Serve
    });
    let outcome =
        run(&server.options("-t 1 -c 1 -n 2 --ratio 0:1 -a user:pass -P resp3 --select-db 3"));
    let log = log.lock().expect("nobody panics");
    // The question for the server's name signs in as well.
    let log: Vec<_> = log.iter().filter(|words| *words != b"AUTH user pass").collect();
    assert_eq!(replies(&outcome), 2);
    assert_eq!(log[..2], [&b"HELLO 3"[..], b"SELECT 3"]);
    assert!(log[2..].iter().all(|words| words.starts_with(b"GET ")) && log.len() == 4);
}

#[test]
fn what_the_server_refuses_is_said_in_its_words() {
    let refusing = Server::start(Manner::AtOnce, |_, words| {
        let wrong = b"-WRONGPASS invalid username-password pair\r\n".to_vec();
        if is(words, "AUTH") { Act::Reply(wrong) } else { Act::Serve }
    });
    let error =
        engine::run(&refusing.options("-t 2 -c 2 -n 5 -a bad")).expect_err("wrong password");
    assert!(error.contains("AUTH") && error.contains("WRONGPASS invalid"), "{error}");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    drop(listener);
    let error =
        engine::run(&server::options(&format!("-p {port} -n 5"))).expect_err("nobody there");
    assert!(error.contains(&port.to_string()) && error.contains("refused"), "{error}");
}

#[test]
fn a_reply_that_is_none_ends_the_run() {
    let server = Server::start(Manner::AtOnce, |_, _| Act::Reply(b"HTTP/1.1 400\r\n".to_vec()));
    let error = engine::run(&server.options("-t 2 -c 1 -n 5")).expect_err("no reply");
    assert!(error.contains("unknown reply type"), "{error}");
}

#[test]
fn only_addresses_of_the_wanted_family_are_used() {
    let server = Server::storing();
    for (words, served) in [("-4", true), ("-6", false), ("-6 -s 127.0.0.1", false)] {
        let outcome = engine::run(&server.options(&format!("{words} -t 1 -c 1 -n 20")));
        match outcome {
            Ok(outcomes) => assert!(served && replies(&outcomes[0]) == 20, "{words}"),
            Err(error) => assert!(!served, "{words}: {error}"),
        }
    }
    // Where the machine has the other family at all.
    let Ok(listener) = std::net::TcpListener::bind("[::1]:0") else { return };
    let port = listener.local_addr().expect("it is bound").port();
    let server = Server::on(listener, Manner::AtOnce, |_, _| Act::Serve);
    for (words, served) in [("-6 -s ::1", true), ("-s ::1", true), ("-4 -s ::1", false)] {
        let words = format!("-p {port} {words} -t 1 -c 1 -n 20");
        assert_eq!(engine::run(&server::options(&words)).is_ok(), served, "{words}");
    }
    assert!(server.seen.requests() >= 40);
}

#[test]
fn a_unix_socket_serves_as_well() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let server = Server::unix(&path);
    let words = format!("-S {} -t 1 -c 2 -n 50 --pipeline 3", path.display());
    assert_eq!(replies(&run(&server::options(&words))), 100);
    assert_eq!(server.seen.connections(), 2);
}

#[test]
fn a_run_of_a_time_ends_and_has_a_series() {
    let server = Server::storing();
    let outcome = run(&server.options("-t 1 -c 2 --test-time 2"));
    assert_eq!(replies(&outcome), server.seen.requests(), "what was sent is waited for");
    assert!(outcome.elapsed >= Duration::from_millis(1900), "{:?}", outcome.elapsed);
    let gets = command(&outcome, "Gets");
    assert!(gets.seconds.len() >= 2, "{} seconds", gets.seconds.len());
    assert!(gets.seconds[..2].iter().all(|second| !second.latencies.is_empty()));
}

#[test]
fn clients_come_in_steps() {
    let server = Server::storing();
    let words = "-t 2 -c 5 -n 20 --clients-start 1 --clients-step 2 --step-duration 1";
    let outcome = run(&server.options(words));
    assert_eq!((replies(&outcome), server.seen.connections()), (200, 10));
    assert!(outcome.elapsed >= Duration::from_secs(2), "the last two came after two steps");
}

#[test]
fn outcomes_of_clients_add_up_to_the_run() {
    let server = Server::storing();
    let outcome = run(&server.options("-t 2 -c 2 -n 44 --client-stats clients"));
    assert_eq!(outcome.clients.len(), 4);
    for client in &outcome.clients {
        assert_eq!(client.iter().map(|command| command.latencies.len()).sum::<u64>(), 44);
    }
}

#[test]
fn values_larger_than_the_socket_takes_at_once_arrive_whole() {
    let server = Server::storing();
    let words = "-t 1 -c 2 -n 12 --pipeline 4 --ratio 1:1 -d 3000000 --key-maximum 3";
    let outcome = run(&server.options(&format!("{words} --key-minimum 1")));
    assert_eq!(replies(&outcome), 24);
    assert!(server.seen.writes().values().flatten().all(|value| value.len() == 3_000_000));
}

#[test]
fn each_run_of_several_has_its_outcome() {
    let server = Server::storing();
    let outcomes = engine::run(&server.options("-t 1 -c 2 -n 30 -x 3")).expect("all succeed");
    assert_eq!(outcomes.iter().map(replies).collect::<Vec<_>>(), [60, 60, 60]);
    assert_eq!(server.seen.requests(), 180);
}

#[test]
fn waits_are_requests_like_any_other() {
    let server = Server::storing();
    let words = "-t 1 -c 1 -n 90 --ratio 1:0 --wait-ratio 2:1 --num-slaves 1-1 --wait-timeout 1-1";
    let outcome = run(&server.options(words));
    assert_eq!(command(&outcome, "Waits").latencies.len(), 30);
}

/// A store that answers until its `count`-th request, and then never again.
fn falling_silent(count: u64) -> Server {
    Server::start(Manner::AtOnce, move |seen, _| {
        if seen.requests() >= count {
            // Longer than any test runs.
            thread::sleep(Duration::from_secs(3600));
        }
        Act::Serve
    })
}

fn unanswered(outcome: &Outcome) -> Vec<u64> {
    let ages = outcome.commands.iter().flat_map(|command| command.unanswered.iter_recorded());
    ages.flat_map(|step| vec![step.value_iterated_to(); step.count_at_value() as usize]).collect()
}

#[test]
fn a_server_that_stands_still_has_had_the_whole_time() {
    let outcome = run(&falling_silent(100).options("-t 1 -c 4 --test-time 1"));
    assert_eq!(replies(&outcome) + outcome.unanswered(), 103, "four less one were under way");
    assert!(outcome.elapsed >= Duration::from_secs(1), "{:?}", outcome.elapsed);
    assert_eq!(outcome.unanswered(), 4);
    // The wait for their replies goes on for ten seconds after the end.
    assert!(unanswered(&outcome).iter().all(|age| *age >= 9_000_000), "{:?}", unanswered(&outcome));
    assert!(!outcome.is_clean());
    assert_eq!(outcome.errors(), 0, "what got no reply is no error reply");
}

#[test]
fn an_open_loop_counts_what_was_due_and_never_sent() {
    let outcome = run(&falling_silent(100).options("-t 1 -c 4 --test-time 1 --open-loop 1000"));
    let all = replies(&outcome) + outcome.unanswered();
    assert!((998..=1001).contains(&all), "{all} of the thousand that were due");
    assert_eq!(outcome.unanswered() - outcome.unsent, 4, "one per connection was under way");
    let old = unanswered(&outcome).iter().filter(|age| **age >= 500_000).count();
    assert!(old >= 390, "{old} were due in the first half second and never answered");
    assert!(!outcome.is_clean());
}

#[test]
fn a_run_of_a_number_of_requests_gives_a_silent_server_up() {
    let outcome = run(&falling_silent(50).options("-t 1 -c 2 -n 1000 --silence-limit 1"));
    assert_eq!((replies(&outcome), outcome.unanswered()), (49, 2));
    assert!(outcome.elapsed >= Duration::from_secs(1), "{:?}", outcome.elapsed);
    assert!(!outcome.is_clean());
}

#[test]
fn a_server_that_dies_in_the_run_is_told() {
    let server = falling_silent(u64::MAX);
    let options = server.options("-t 1 -c 2 --test-time 2");
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(500));
        server.close();
    });
    let outcome = run(&options);
    stopper.join().expect("it ends");
    assert!(outcome.elapsed >= Duration::from_secs(2), "{:?}", outcome.elapsed);
    assert!(outcome.connection_errors >= 1 && outcome.refused >= 1, "{outcome:?}");
    assert!(!outcome.is_clean());
}

/// A connection is lost once, however often it is tried in vain to have it again.
#[test]
fn attempts_that_are_refused_are_no_lost_connections() {
    let server = Server::storing();
    let options = server.options("-t 1 -c 3 --test-time 2");
    let stopper = thread::spawn(move || {
        while server.seen.requests() < 100 {
            thread::sleep(Duration::from_millis(1));
        }
        server.stop_listening();
        server.close();
    });
    let outcome = run(&options);
    stopper.join().expect("it ends");
    assert_eq!(outcome.connection_errors, 3, "{outcome:?}");
    assert!(outcome.refused >= 3, "each was tried again: {outcome:?}");
}

#[test]
fn a_refusal_that_nobody_asked_for_is_said_in_the_servers_words() {
    let server = Server::start(Manner::AtOnce, |_, _| Act::Serve);
    server.refuse_with(b"-ERR max number of clients reached\r\n");
    // The refusal may come before the first request, which it then seems to answer.
    let said = match engine::run(&server.options("-t 1 -c 1 -n 5 --ratio 1:0")) {
        Ok(outcomes) => command(&outcomes[0], "Sets").first_error.clone().expect("it was refused"),
        Err(error) => error,
    };
    assert!(said.contains("max number of clients reached"), "{said}");
}

#[test]
fn the_first_error_of_each_kind_is_kept() {
    let server = Server::start(Manner::AtOnce, |_, words| {
        if is(words, "SET") { Act::Reply(b"-OOM no room\r\n".to_vec()) } else { Act::Serve }
    });
    let outcome = run(&server.options("-t 1 -c 1 -n 20 --ratio 1:1"));
    assert_eq!(command(&outcome, "Sets").first_error.as_deref(), Some("OOM no room"));
    assert_eq!(command(&outcome, "Gets").first_error, None);
    assert_eq!(outcome.errors(), 10);
    assert!(!outcome.is_clean());
}

#[test]
fn a_missing_value_is_wrong_where_only_is_verified() {
    let server = Server::storing();
    let words = "-t 1 -c 2 --key-minimum 1 --key-maximum 100 --verify-only";
    assert_eq!(run(&server.options(words)).verify_errors, 100);
}

#[test]
fn each_run_has_other_keys_under_randomize() {
    let keys = |words: &str| {
        let server = Server::storing();
        let outcomes = engine::run(&server.options(words)).expect("all succeed");
        assert_eq!(outcomes.len(), 2);
        server.seen.writes().len()
    };
    let words = "-t 1 -c 1 -n 50 -x 2 --ratio 1:0";
    assert_eq!(keys(words), 50, "the same keys again");
    assert!(keys(&format!("{words} --randomize")) > 90, "two runs of different keys");
}
