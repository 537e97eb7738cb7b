//! Running commands without a server: scripts of request lines against a keyspace of their own.
//!
//! Invariant: a line goes the way of a real request (look-up, arity, keys, locks, handler,
//! conclude), so a command that passes here needs only a session around it.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;

use base::quote::{quote, split_arguments};
use base::time::UnixMillis;
use keyspace::{
    Acquisition, EventMask, Keyspace, Options, PartitionSet, Propagation, Refusal, Tx, TxOptions,
    Wait, Waiter, Watch,
};
use proto::value::{ReplyLimits, ReplyParser, Value};
use proto::{Args, Output, OwnedArgs, Reply, Resp};

use crate::keys::BeginSearch;
use crate::{DataCommand, FAMILIES, Handler, KeySpec, LockPlan, errors};

/// When every test begins: a Tuesday in November 2023.
pub(crate) const START: UnixMillis = 1_700_000_000_000;

/// Runs request lines over an empty keyspace; each must give the reply in the same line of
/// `replies` (see [`render`] for its form). Blank lines and the lines' indentation do not count.
#[track_caller]
pub(crate) fn check(requests: &str, replies: &str) {
    Session::new().check(requests, replies);
}

/// A client and the keyspace it has for itself.
pub(crate) struct Session {
    keyspace: &'static Keyspace,
    now: UnixMillis,
    database: usize,
    resp: Resp,
    journal: Vec<String>,
    events: Vec<String>,
    ran_heavy: bool,
    streamed: bool,
    waits: Option<Wait>,
    watches: Vec<Arc<Watch>>,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::with_prefixes(&[])
    }

    /// One on a keyspace that has an index of these prefixes.
    pub(crate) fn with_prefixes(prefixes: &[&str]) -> Self {
        let prefixes = prefixes.iter().map(|prefix| prefix.as_bytes().into()).collect();
        let (databases, hash_key) = (16, (1, 2));
        let keyspace = Keyspace::leak(Options { databases, hash_key, prefixes, ..Options::new() });
        keyspace.settings().journal_attached.store(true, Ordering::Relaxed);
        keyspace.settings().events.store(EventMask::MAX, Ordering::Relaxed);
        Self {
            keyspace,
            now: START,
            database: 0,
            resp: Resp::Two,
            journal: Vec::new(),
            events: Vec::new(),
            ran_heavy: false,
            streamed: false,
            waits: None,
            watches: Vec::new(),
        }
    }

    /// The same client after `HELLO 3`.
    pub(crate) fn resp3(mut self) -> Self {
        self.resp = Resp::Three;
        self
    }

    /// Turns to another database, as SELECT does.
    pub(crate) fn select(&mut self, database: usize) {
        self.database = database;
    }

    /// Lets time pass.
    pub(crate) fn advance(&mut self, millis: i64) {
        self.now += millis;
    }

    /// The keyspace, to change its settings.
    pub(crate) fn keyspace(&self) -> &'static Keyspace {
        self.keyspace
    }

    /// See [`check`].
    #[track_caller]
    pub(crate) fn check(&mut self, requests: &str, replies: &str) {
        let (requests, replies) = (lines(requests), lines(replies));
        assert_eq!(requests.len(), replies.len(), "each request has one reply");
        for (number, (request, reply)) in requests.iter().zip(&replies).enumerate() {
            assert_eq!(self.call(request), *reply, "line {}: {request}", number + 1);
        }
    }

    /// Runs one request line; its reply, rendered.
    pub(crate) fn call(&mut self, line: &str) -> String {
        let words = split_arguments(line.as_bytes()).expect("a test's quotes are balanced");
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.call_words(&words)
    }

    /// Runs one request; its reply, rendered.
    pub(crate) fn call_words(&mut self, words: &[&[u8]]) -> String {
        render(&self.value_of(words))
    }

    /// Runs one request; its reply.
    pub(crate) fn value_of(&mut self, words: &[&[u8]]) -> Value {
        self.journal.clear();
        self.events.clear();
        self.ran_heavy = false;
        self.waits = None;
        let owned: OwnedArgs = words.iter().copied().collect();
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, self.resp);
        let mark = reply.mark();
        if let Err(refusal) = self.execute(owned.as_args(), &mut reply) {
            reply.rollback(mark);
            if let Refusal::Wait(wait) = refusal {
                // No client of a script is ever served later: a command that would wait says so in
                // words.
                reply.simple(format!("waits for {} keys", wait.awaited.len()));
                self.waits = Some(*wait);
                return only_reply(&mut output);
            }
            reply.error(refusal.line().expect("the other refusals are settled by now"));
        }
        self.streamed = output.is_streaming();
        output.finish();
        only_reply(&mut output)
    }

    /// Has somebody watch a key, and somebody else wait for it.
    pub(crate) fn attend(&mut self, key: &[u8]) {
        let partition = self.keyspace.locate(key).partition();
        let mut locks =
            Acquisition::of_partitions(self.keyspace, PartitionSet::from_slice(&[partition]));
        assert!(locks.poll(Waker::noop()).is_ready(), "nobody else holds locks");
        let mut tx = Tx::begin(locks, self.options(LockPlan::Keys, true));
        let watch = Watch::new(self.keyspace);
        tx.watch(key, &watch);
        tx.register(key, &Waiter::new(false, Box::new(())), 0).expect("its lock is held");
        tx.finish();
        self.watches.push(watch);
    }

    /// What the journal got for the last request, one command each.
    pub(crate) fn journal(&self) -> &[String] {
        &self.journal
    }

    /// The events of the last request, as `name key`.
    pub(crate) fn events(&self) -> &[String] {
        &self.events
    }

    /// Whether the last request was too much for a worker.
    pub(crate) fn ran_heavy(&self) -> bool {
        self.ran_heavy
    }

    /// Whether the last reply was long enough to be made while it is sent.
    pub(crate) fn streamed(&self) -> bool {
        self.streamed
    }

    /// What the last request waits for, if it does.
    pub(crate) fn waits(&self) -> Option<&Wait> {
        self.waits.as_ref()
    }

    fn execute(&mut self, args: Args<'_>, reply: &mut Reply<'_>) -> Result<(), Refusal> {
        let command = find(args)?;
        let mut acquisition = self.plan(command, args);
        let mark = reply.mark();
        let (mut heavy, mut widenings) = (false, 0);
        loop {
            assert!(acquisition.poll(Waker::noop()).is_ready(), "nobody else holds locks");
            let mut tx = Tx::begin(acquisition, self.options(command.spec.plan, heavy));
            let outcome = Handler::of(command).run(&mut tx, args, &mut reply.reborrow());
            match outcome {
                Err(Refusal::Widen) => {
                    assert!(reaches_beyond(command), "{args:?}: it uses keys it does not declare");
                    acquisition = tx.widen(widenings);
                }
                Err(Refusal::Heavy) => {
                    assert!(!heavy, "heavy work is refused once");
                    drop(tx);
                    (heavy, self.ran_heavy) = (true, true);
                    acquisition = self.plan(command, args);
                }
                settled => {
                    tx.finish();
                    self.note(&tx, args);
                    tx.seal();
                    return settled;
                }
            }
            reply.rollback(mark);
            widenings += 1;
        }
    }

    fn options(&self, plan: LockPlan, heavy: bool) -> TxOptions {
        TxOptions {
            database: self.database,
            touches: true,
            // A visitor has nothing to undo.
            undoable: plan != LockPlan::Visits,
            heavy,
            ..TxOptions::internal(0, self.now)
        }
    }

    fn plan(&self, command: &DataCommand, args: Args<'_>) -> Acquisition {
        let mut partitions = PartitionSet::new();
        match command.spec.plan {
            LockPlan::World => return Acquisition::of_world(self.keyspace),
            LockPlan::Visits | LockPlan::OfWords(_) => {}
            LockPlan::Keys => {
                for spec in command.spec.keys {
                    let lock = |index| {
                        partitions.push(self.keyspace.locate(&args[index]).partition());
                    };
                    // Counts that lie are for the handler to refuse, in its own words.
                    let _ = spec.visit(args, lock);
                }
            }
        }
        Acquisition::of_partitions(self.keyspace, partitions)
    }

    fn note(&mut self, tx: &Tx, args: Args<'_>) {
        let effects = tx.effects();
        let expired = effects.expired().iter();
        self.journal.extend(expired.map(|(_, key)| format!("DEL {}", word(key))));
        let removals = effects.expired_members().iter();
        self.journal.extend(removals.map(|(_, words)| line(words.iter().map(|word| &**word))));
        match effects.propagation() {
            _ if effects.changes() == 0 => {}
            Propagation::AsSent => self.journal.push(line(args.iter())),
            Propagation::Instead(commands) => {
                let lines = commands.iter().map(|words| line(words.iter().map(|word| &**word)));
                self.journal.extend(lines);
            }
        }
        let events = effects.events().iter();
        self.events.extend(events.map(|event| format!("{} {}", event.name, word(&event.key))));
    }
}

/// Whether a command may use keys that its request does not name.
fn reaches_beyond(command: &DataCommand) -> bool {
    let is_undeclared = |spec: &KeySpec| matches!(spec.begin, BeginSearch::Undeclared);
    command.spec.plan != LockPlan::Keys
        || command.spec.keys.is_empty()
        || command.spec.keys.iter().any(is_undeclared)
}

/// The command that a request names; its arity fits.
fn find(args: Args<'_>) -> Result<&'static DataCommand, Refusal> {
    let is_named = |command: &DataCommand, name: &[u8]| {
        name.eq_ignore_ascii_case(command.spec.name.as_bytes())
    };
    let all = FAMILIES.iter().flat_map(|family| family.iter().copied());
    let parent = { all }.find(|command| is_named(command, &args[0])).expect("a known command");
    let name = parent.spec.name.to_ascii_lowercase();
    let subcommand = args
        .get(1)
        .and_then(|name| parent.subcommands.iter().find(|subcommand| is_named(subcommand, name)));
    let (command, name) = match subcommand {
        Some(found) => (found, format!("{name}|{}", found.spec.name.to_ascii_lowercase())),
        None => (parent, name),
    };
    let admitted = command.spec.arity.admits(args.len());
    if admitted { Ok(command) } else { Err(errors::wrong_arity(&name)) }
}

fn only_reply(output: &mut Output) -> Value {
    let mut parser = ReplyParser::new(ReplyLimits::default());
    while !output.is_empty() {
        parser.feed(output.front());
        output.consume(output.front().len());
    }
    let value = parser.next_reply().expect("replies are well-formed").expect("there is a reply");
    assert_eq!(parser.next_reply(), Ok(None), "there is one reply only");
    value
}

/// A reply in one line: `+OK`, `-ERR text`, `:1`, `"bulk"`, `nil` (`nil-array`, both of RESP2 and
/// RESP3's one), `[array elements]`, `{key: value, key: value}`, `~[set]`, `,double`, `#t`.
pub(crate) fn render(value: &Value) -> String {
    let list = |items: &[Value]| items.iter().map(render).collect::<Vec<_>>().join(" ");
    let text = String::from_utf8_lossy;
    match value {
        Value::Simple(bytes) => format!("+{}", text(bytes)),
        Value::Error(bytes) => format!("-{}", text(bytes)),
        Value::Integer(number) => format!(":{number}"),
        Value::Bulk(bytes) => quote(bytes),
        Value::Null => "nil".to_owned(),
        Value::NullArray => "nil-array".to_owned(),
        Value::Array(items) => format!("[{}]", list(items)),
        Value::Set(items) => format!("~[{}]", list(items)),
        Value::Push(items) => format!(">[{}]", list(items)),
        Value::Map(pairs) => {
            let pair =
                |(key, value): &(Value, Value)| format!("{}: {}", render(key), render(value));
            format!("{{{}}}", pairs.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
        Value::Double(number) => format!(",{number}"),
        Value::DoubleText(number) => format!(",{}", text(number)),
        Value::Boolean(truth) => if *truth { "#t" } else { "#f" }.to_owned(),
        Value::BigNumber(digits) => format!("({}", text(digits)),
        Value::Verbatim(format, bytes) => format!("={}:{}", text(format), quote(bytes)),
        Value::Attributed(_, value) => render(value),
    }
}

/// The lines of a script; one that ends in a backslash goes on in the next.
fn lines(text: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let last = lines.last_mut().expect("there is always one");
        match line.strip_suffix('\\') {
            Some(part) => last.push_str(part),
            None => {
                last.push_str(line);
                lines.push(String::new());
            }
        }
    }
    lines.retain(|line| !line.is_empty());
    lines
}

fn line<'a>(words: impl Iterator<Item = &'a [u8]>) -> String {
    let mut line = String::new();
    for each in words {
        let gap = if line.is_empty() { "" } else { " " };
        write!(line, "{gap}{}", word(each)).expect("a String takes everything");
    }
    line
}

/// A word as one would type it: in quotes only where it needs them.
fn word(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if !bytes.is_empty() && bytes.iter().all(is_plain) {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    quote(bytes)
}

#[test]
fn a_script_runs() {
    let mut session = Session::new();
    assert_eq!(session.call("get nothing"), "nil");
    assert_eq!(session.call("GET"), "-ERR wrong number of arguments for 'get' command");
    assert!(session.journal().is_empty() && session.events().is_empty());
    assert!(!session.ran_heavy());
}
