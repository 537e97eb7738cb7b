//! When the system says no: the n-th call of each kind, from any thread, fails, does less than it
//! was asked to, takes long or is the last, while the server starts, loads, writes, rewrites its
//! log, saves, is steered, does heavy work and ends. Whatever that leads to, what was acknowledged
//! under `always` is there after the next start, every command is answered or its connection
//! closed, what went wrong is told, and SIGTERM ends it.
//!
//! `APUS_FAULTS=2000` asks for so many faults of a fresh seed; `APUS_FAULT` for one, as a failure
//! tells it.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use base::random::Random;
use proto::value::Value;
use rustix::io::Errno;
use rustix::process::Signal;
use tempfile::TempDir;
use tests::Client;
use tests::faults::ledger::Ledger;
use tests::faults::subject::{BOUND, Subject};
use tests::faults::table::{TABLE, row_of};
use tests::faults::work::{ARGUMENTS, await_idle, folder, steer, work_hard, write_while};
use tests::faults::{Fault, Injector};
use tests::folder::copy_folder;

/// How many faults a short run draws.
const FAULTS: u64 = 12;
const SEED: u64 = 40;

/// What was not so once.
const FOUND: [&str; 12] = [
    "Save/protect memory/12/11/1",
    "Write/receive/4/10/1",
    "Write/accept/4/1/1",
    "Steer/name a file/5/4/18446744073709551615",
    // Between the manifest that forgets a file and the end of that file.
    "Rewrite/remove a file/5/0/1",
    "Rewrite/remove a file/kill/0/1",
    // As an increment begins, as a base comes into its place, as what it replaces is forgotten.
    "Rewrite/sync a directory/5/0/1",
    "Rewrite/sync a directory/5/1/1",
    "Rewrite/sync a directory/5/2/1",
    "Rewrite/sync a directory/kill/0/1",
    "Rewrite/sync a directory/kill/2/1",
    "Rewrite/sync a directory/kill/3/1",
];

/// A call that takes so long is not the rule.
const LATE: Duration = Duration::from_millis(300);

/// What goes on while the fault happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Start,
    Load,
    Write,
    Rewrite,
    Save,
    Steer,
    Heavy,
    End,
}

const PHASES: [Phase; 8] = [
    Phase::Start,
    Phase::Load,
    Phase::Write,
    Phase::Rewrite,
    Phase::Save,
    Phase::Steer,
    Phase::Heavy,
    Phase::End,
];

/// What happens when.
#[derive(Clone, Copy)]
struct Case {
    phase: Phase,
    row: usize,
    fault: Fault,
    /// Calls that go well before.
    left: u64,
    /// How many meet it.
    times: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.fault {
            Fault::Error(error) => error.raw_os_error().to_string(),
            Fault::Short => "short".to_owned(),
            Fault::Late(_) | Fault::Held => "late".to_owned(),
            Fault::Kill => "kill".to_owned(),
        };
        let Self { phase, row, left, times, .. } = self;
        write!(f, "{phase:?}/{}/{fault}/{left}/{times}", TABLE[*row].name)
    }
}

impl Case {
    fn read(text: &str) -> Self {
        let parts: Vec<&str> = text.split('/').collect();
        let [phase, row, fault, left, times] = parts[..] else { panic!("{text}: five parts") };
        let fault = match fault {
            "short" => Fault::Short,
            "late" => Fault::Late(LATE),
            "kill" => Fault::Kill,
            number => Fault::Error(Errno::from_raw_os_error(number.parse().expect("a number"))),
        };
        let phase = PHASES.into_iter().find(|known| format!("{known:?}") == phase);
        let number = |text: &str| text.parse().expect("a number");
        Self {
            phase: phase.expect("a phase"),
            row: row_of(row),
            fault,
            left: number(left),
            times: number(times),
        }
    }

    /// One of those that can happen, where each row is called so often in each phase.
    fn draw(random: &mut Random, counts: &[Vec<u64>]) -> Self {
        loop {
            let phase = random.below(PHASES.len() as u64) as usize;
            let row = random.below(TABLE.len() as u64) as usize;
            let count = counts[phase][row];
            if count == 0 {
                continue;
            }
            let errors = TABLE[row].errors;
            let fault = match random.below(errors.len() as u64 + 3) {
                0 => Fault::Late(LATE),
                1 if random.below(2) == 0 => Fault::Kill,
                2 if TABLE[row].shortens => Fault::Short,
                _ => Fault::Error(errors[random.below(errors.len() as u64) as usize]),
            };
            let is_short = matches!(fault, Fault::Late(_) | Fault::Error(Errno::INTR));
            let lasts = TABLE[row].may_last && !is_short;
            let times = if lasts && random.below(3) == 0 { u64::MAX } else { 1 };
            return Self { phase: PHASES[phase], row, fault, left: random.below(count), times };
        }
    }
}

/// A folder that a log of some length lies in.
fn stock() -> TempDir {
    let folder = folder();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &ARGUMENTS);
    assert!(subject.serves());
    let mut client = Client::connect(subject.port());
    let fill = |client: &mut Client, from: usize| {
        for number in from..from + 40 {
            client.call(&["SET", &format!("old:{number}"), &"v".repeat(number * number)]);
            client.call(&["RPUSH", "old:list", &number.to_string()]);
        }
    };
    fill(&mut client, 0);
    client.call(&["BGREWRITEAOF"]);
    await_idle(&mut subject, "aof_rewrite_in_progress");
    fill(&mut client, 40);
    assert_eq!(client.call(&["SAVE"]), Value::Simple("OK".into()));
    subject.kill();
    folder
}

/// What the server does in a phase behind its start.
fn carry_out(phase: Phase, subject: &mut Subject, ledger: &Ledger) {
    match phase {
        Phase::Start | Phase::Load => {}
        Phase::Write => write_while(subject, ledger, 30, |_| ()),
        Phase::Rewrite => write_while(subject, ledger, 15, |subject| {
            subject.ask(&["BGREWRITEAOF"]);
            await_idle(subject, "aof_rewrite_in_progress");
        }),
        Phase::Save => write_while(subject, ledger, 5, |subject| {
            subject.ask(&["BGSAVE"]);
            await_idle(subject, "rdb_bgsave_in_progress");
            subject.ask(&["SAVE"]);
        }),
        Phase::Steer => steer(subject),
        Phase::Heavy => write_while(subject, ledger, 5, |subject| work_hard(subject)),
        Phase::End => {
            write_while(subject, ledger, 3, |_| ());
            subject.signal(Signal::TERM);
            // The server may have to go on.
            subject.ends_within(Duration::from_secs(3));
        }
    }
}

/// Whatever has happened: the server serves as before, or has said why not.
fn check(case: &Case, subject: &mut Subject, ledger: &Ledger, started: bool, met: u64) {
    let (is_killed, why) = (case.fault == Fault::Kill && met > 0, words_for(case.fault));
    if is_killed {
        subject.wait();
    }
    if subject.has_ended() || !recover(subject, ledger) {
        assert!(subject.ends_within(BOUND), "nobody listens:\n{}", subject.log());
        let log = subject.log();
        let was_to_end = case.phase == Phase::End && started;
        let says_why = [
            "The process ends: ",
            "memory allocation of",
            "annot ",
            "Can't",
            "RROR",
            "rror",
            "xiting",
        ];
        let is_told = says_why.iter().any(|words| log.contains(words))
            || why.as_ref().is_some_and(|why| log.contains(why));
        assert!(is_killed || was_to_end || is_told, "it does not say why it ended:\n{log}");
    }
    let log = subject.log();
    assert!(!log.contains("panicked at"), "it panicked:\n{log}");
    let is_interrupted = case.fault == Fault::Error(Errno::INTR);
    assert!(!is_interrupted || ledger.closed() == 0, "a signal closes nobody's connection");
    // What is done again and well, or was only to save time, need not be told.
    if let Some(why) = why
        && TABLE[case.row].is_told
        && met > 0
        && case.times > 1
    {
        let is_told = log.contains(&why) || ledger.errors().iter().any(|it| it.contains(&why));
        assert!(is_told, "{why:?} is not told:\n{log}");
    }
}

/// How the system calls the failure, if it is one.
fn words_for(fault: Fault) -> Option<String> {
    let Fault::Error(error) = fault else { return None };
    let text = std::io::Error::from(error).to_string();
    text.split(" (os error").next().map(str::to_owned)
}

/// The server is as good as new: all kinds of work are done, and it ends when it is told to. What
/// fails may still end it; then it is not.
fn recover(subject: &mut Subject, ledger: &Ledger) -> bool {
    let is_ok = |reply: &Value| *reply == Value::Simple("OK".into());
    if !subject.ask_until(&["CONFIG", "SET", "appendonly", "yes"], is_ok) {
        return false;
    }
    let deadline = std::time::Instant::now() + BOUND;
    while subject.info("aof_enabled").as_deref() != Some("1")
        || subject.info("aof_rewrite_in_progress").as_deref() != Some("0")
        || subject.info("aof_rewrite_scheduled").as_deref() != Some("0")
    {
        if subject.has_ended() {
            return false;
        }
        assert!(std::time::Instant::now() < deadline, "no log:\n{}", subject.log());
        std::thread::sleep(Duration::from_millis(10));
    }
    subject.ask_until(&["SAVE"], is_ok);
    subject.ask_until(&["SET", "new", "1"], is_ok);
    // Readers, too, are told once of a log that failed.
    let mut client = Client::connect(subject.port());
    ledger.check(&mut client).unwrap_or_else(|why| panic!("in memory: {why}"));
    subject.ask_until(&["CONFIG", "SET", "maxmemory", "0"], is_ok);
    let asked = &*subject;
    std::thread::scope(|scope| {
        for number in 1..=3 {
            let script = format!("for i = 1, {} do end return 1", 200_000 * number);
            scope.spawn(move || {
                let reply = asked.ask(&["EVAL", &script, "1", "new"]);
                assert_eq!(reply, Some(Value::Integer(1)), "a script that is long");
            });
        }
    });
    write_while(subject, ledger, 6, |_| ());
    subject.signal(Signal::TERM);
    assert!(subject.ends_within(BOUND), "SIGTERM does not end it:\n{}", subject.log());
    true
}

/// Has the fault happen and looks at what is left; how often it was met.
fn run(case: &Case, stock: &Path) -> u64 {
    eprintln!("{case}");
    let (folder, ledger) = (folder(), Ledger::default());
    if case.phase != Phase::Start {
        std::fs::remove_file(folder.path().join("apus.conf")).expect("it is there");
        std::fs::remove_file(folder.path().join("users.acl")).expect("it is there");
        copy_folder(stock, folder.path());
    }
    let arm = |subject: &Subject| {
        subject.injector.arm(case.row, case.fault, case.left, case.times);
    };
    let is_start = matches!(case.phase, Phase::Start | Phase::Load);
    let injector = Injector::of(vec![case.row]);
    if is_start {
        injector.arm(case.row, case.fault, case.left, case.times);
    }
    let mut subject = Subject::start(folder.path(), injector, &ARGUMENTS);
    let started = subject.serves();
    if !is_start {
        assert!(started, "{}", subject.log());
        arm(&subject);
        carry_out(case.phase, &mut subject, &ledger);
    }
    let met = subject.injector.disarm();
    check(case, &mut subject, &ledger, started, met);
    subject.kill();
    let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &ARGUMENTS);
    assert!(subject.serves(), "it does not start again:\n{}", subject.log());
    let mut client = Client::connect(subject.port());
    ledger.check(&mut client).unwrap_or_else(|why| panic!("behind a start: {why}"));
    if case.phase != Phase::Start {
        assert_eq!(client.call(&["LLEN", "old:list"]), Value::Integer(80));
    }
    leaves_no_orphans(&mut subject, folder.path());
    subject.kill();
    met
}

/// A rewrite later nothing of the log is there that its manifest does not name.
fn leaves_no_orphans(subject: &mut Subject, folder: &Path) {
    subject.ask_until(&["BGREWRITEAOF"], |reply| !matches!(reply, Value::Error(_)));
    await_idle(subject, "aof_rewrite_scheduled");
    await_idle(subject, "aof_rewrite_in_progress");
    let directory = folder.join("appendonlydir");
    let manifest = directory.join("appendonly.aof.manifest");
    let mut strays = Vec::new();
    let deadline = std::time::Instant::now() + BOUND;
    while std::time::Instant::now() < deadline {
        let named = std::fs::read_to_string(&manifest).expect("the log has a manifest");
        let files = std::fs::read_dir(&directory).expect("the log has a directory");
        let names = files.map(|file| file.expect("a file").file_name().into_string());
        strays = names.map(|name| name.expect("text")).collect();
        strays.retain(|name| !named.contains(&**name) && !name.ends_with(".manifest"));
        if strays.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{strays:?} stay:\n{}", subject.log());
}

/// A directory that cannot be synced once, while a rewrite begins or ends, and a power loss that
/// leaves half a batch behind what was written: what was acknowledged is there.
#[test]
fn behind_a_directory_that_failed_once_a_torn_end_is_cut_off() {
    let (stock, row) = (stock(), row_of("sync a directory"));
    for left in 0..4 {
        let (folder, ledger) = (folder(), Ledger::default());
        copy_folder(stock.path(), folder.path());
        let mut subject = Subject::start(folder.path(), Injector::of(vec![row]), &ARGUMENTS);
        assert!(subject.serves(), "{}", subject.log());
        subject.injector.arm(row, Fault::Error(Errno::IO), left, 1);
        carry_out(Phase::Rewrite, &mut subject, &ledger);
        assert_eq!(subject.injector.disarm(), 1, "it was synced less than {left} times");
        write_while(&mut subject, &ledger, 4, |_| ());
        subject.kill();
        tear(&folder.path().join("appendonlydir"));
        let mut subject = Subject::start(folder.path(), Injector::of(vec![]), &ARGUMENTS);
        assert!(subject.serves(), "{left}: it does not start again:\n{}", subject.log());
        let mut client = Client::connect(subject.port());
        ledger.check(&mut client).unwrap_or_else(|why| panic!("{left}: {why}"));
        leaves_no_orphans(&mut subject, folder.path());
        subject.kill();
    }
}

/// Adds half a command to the increment that was written last.
fn tear(directory: &Path) {
    let files = std::fs::read_dir(directory).expect("the log has a directory");
    let increments = files.map(|file| file.expect("a file").path());
    let increments = increments.filter(|path| path.to_string_lossy().ends_with(".incr.aof"));
    let written = |path: &PathBuf| {
        let data = std::fs::metadata(path).expect("it is there");
        (data.modified().expect("the system tells"), data.len())
    };
    let last = increments.max_by_key(written).expect("the log has an increment");
    let mut bytes = std::fs::read(&last).expect("it is there");
    bytes.extend(b"*3\r\n$3\r\nSET\r\n$5\r\nke");
    std::fs::write(&last, bytes).expect("it is ours");
}

/// How often each row is called in each phase.
fn learn(stock: &Path) -> Vec<Vec<u64>> {
    let learn = |phase: &Phase| {
        let (folder, ledger) = (folder(), Ledger::default());
        if *phase != Phase::Start {
            std::fs::remove_file(folder.path().join("apus.conf")).expect("it is there");
            std::fs::remove_file(folder.path().join("users.acl")).expect("it is there");
            copy_folder(stock, folder.path());
        }
        let injector = Injector::of((0..TABLE.len()).collect());
        let mut subject = Subject::start(folder.path(), injector, &ARGUMENTS);
        assert!(subject.serves(), "{}", subject.log());
        if !matches!(phase, Phase::Start | Phase::Load) {
            subject.injector.counts();
            carry_out(*phase, &mut subject, &ledger);
        }
        let counts = subject.injector.counts();
        subject.kill();
        counts
    };
    PHASES.iter().map(learn).collect()
}

#[test]
fn whatever_call_fails_what_was_acknowledged_is_there_and_nothing_hangs() {
    let stock = stock();
    if let Ok(one) = std::env::var("APUS_FAULT") {
        let met = run(&Case::read(&one), stock.path());
        eprintln!("met {met} times");
        return;
    }
    let asked = std::env::var("APUS_FAULTS").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_FAULTS is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    eprintln!("seed {seed}");
    let mut random = Random::from_seed(seed);
    let counts = learn(stock.path());
    let (mut met, mut failed) = (0, Vec::new());
    let drawn = (0..asked.unwrap_or(FAULTS)).map(|_| Case::draw(&mut random, &counts));
    for case in FOUND.iter().map(|text| Case::read(text)).chain(drawn) {
        match std::panic::catch_unwind(|| run(&case, stock.path())) {
            Ok(times) => met += u64::from(times > 0),
            Err(_) => failed.push(case.to_string()),
        }
    }
    eprintln!("{met} faults were met");
    assert!(met > 0 && failed.is_empty(), "each alone by APUS_FAULT: {failed:#?}");
}
