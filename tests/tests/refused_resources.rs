//! When the system gives no thread or no memory: the server serves with what there is, or says why
//! not; each command is done, refused in words or its connection closed; and SIGTERM ends it.

use proto::value::Value;
use rustix::io::Errno;
use rustix::process::Signal;
use tests::faults::subject::{BOUND, Subject};
use tests::faults::table::row_of;
use tests::faults::work::{ARGUMENTS, await_idle, folder, work_hard};
use tests::faults::{Fault, Injector};
use tests::server::eventually;

/// However many threads the system gives: the server starts or says why not; what comes is done,
/// refused in words or its connection closed; and SIGTERM ends it.
#[test]
fn every_number_of_threads_will_do() {
    let threads = row_of("start a thread");
    let mut served = 0;
    for number in 0..=16 {
        let folder = folder();
        let injector = Injector::of(vec![threads]);
        injector.arm(threads, Fault::Error(Errno::AGAIN), number, u64::MAX);
        let mut subject = Subject::start(folder.path(), injector, &ARGUMENTS);
        if !subject.serves() {
            let log = subject.log();
            assert!(log.contains("Resource temporarily unavailable"), "{number} threads:\n{log}");
            assert!(!log.contains("Bad file format"), "{number} threads:\n{log}");
            continue;
        }
        served += 1;
        let asked = &subject;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(move || work_hard(asked));
            }
            let lines: [&[&str]; 6] = [
                &["SAVE"],
                &["BGSAVE"],
                &["BGREWRITEAOF"],
                &["CONFIG", "SET", "worker-threads", "3"],
                &["CONFIG", "SET", "maxmemory", "0"],
                &["SET", "key", "value"],
            ];
            for words in lines {
                scope.spawn(move || {
                    let reply = asked.ask(words);
                    assert!(reply.is_some(), "{number} threads: {words:?} is not answered");
                });
            }
        });
        // What cannot be saved is a reason to refuse it.
        let is_set = subject.ask(&["SET", "key", "value"]) == Some(Value::Simple("OK".into()));
        let log = subject.log();
        assert!(!log.contains("panicked at"), "{number} threads:\n{log}");
        subject.signal(Signal::TERM);
        assert!(subject.ends_within(BOUND), "{number} threads, SIGTERM:\n{}", subject.log());
        let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &ARGUMENTS);
        assert!(subject.serves(), "{}", subject.log());
        let reply = subject.ask(&["GET", "key"]);
        let is_there = reply == Some(Value::Bulk(b"value".into()));
        assert!(is_there || !is_set, "{number} threads: {reply:?}");
    }
    assert!(served > 0 && served < 16, "{served} of them served");
}

/// What the log holds is loaded by one thread where no other can be had.
#[test]
fn a_log_is_loaded_without_another_thread() {
    let threads = row_of("start a thread");
    let folder = folder();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![threads]), &ARGUMENTS);
    assert!(subject.serves());
    let is_ok = |reply: Option<Value>| reply == Some(Value::Simple("OK".into()));
    await_idle(&mut subject, "aof_rewrite_in_progress");
    assert!(is_ok(subject.ask(&["SET", "key", "value"])));
    subject.injector.arm(threads, Fault::Error(Errno::AGAIN), 0, u64::MAX);
    assert!(is_ok(subject.ask(&["DEBUG", "LOADAOF"])), "{}", subject.log());
    assert_eq!(subject.ask(&["GET", "key"]), Some(Value::Bulk(b"value".into())));
    assert!(is_ok(subject.ask(&["SET", "key", "other"])));
    assert!(subject.injector.disarm() > 0, "it asked for no thread");
    subject.signal(Signal::TERM);
    assert!(subject.ends_within(BOUND), "{}", subject.log());
}

/// What the standard error output is told of memory stands in the log's file, too.
#[test]
fn refused_memory_is_told_in_the_log_file() {
    let memory = row_of("get memory");
    let folder = folder();
    let file = folder.path().join("apus.log");
    for format in ["legacy", "logfmt", "json"] {
        let path = file.display().to_string();
        let own = ["--logfile", &path, "--log-format", format];
        let mut subject = Subject::start(
            folder.path(),
            Injector::of(vec![memory]),
            &[&ARGUMENTS[..], &own].concat(),
        );
        let port = || std::fs::read_to_string(&file).ok().as_deref().and_then(Subject::port_in);
        eventually("it serves", || port().is_some());
        subject.moved_to(port().expect("it was there"));
        subject.injector.arm(memory, Fault::Error(Errno::NOMEM), 0, u64::MAX);
        subject.ask(&["DEBUG", "POPULATE", "1000000", "many", "1000"]);
        assert!(subject.ends_within(BOUND), "it has no memory");
        let log = std::fs::read_to_string(&file).expect("it was there");
        let said = subject.log();
        assert!(log.contains("memory allocation of "), "{log}, and beside it: {said}");
        std::fs::remove_file(&file).expect("it was there");
    }
}
