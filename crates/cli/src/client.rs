//! A client's dialogue: connects, signs in, sends commands, shows replies, and knows what state
//! they leave the connection in.
//!
//! Invariant: what a prompt says of database, transaction and subscriptions is what the server has
//! confirmed.

use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;
use std::rc::Rc;

use base::quote::escape;
use base::time::Clock;
use proto::value::Value;

use crate::connection::{Connection, Failure, Waited};
use crate::docs::CommandDocs;
use crate::format::Formatter;
use crate::interrupt;
use crate::modes::{DebugSession, follow};
use crate::options::{Login, Options, Output};
use crate::preferences::Preferences;
use crate::terminal::{CbreakMode, page};

/// How a command went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server answered.
    Answered,
    /// The server answered with an error.
    Refused,
}

/// Where a stream of messages goes on after a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The user wants to type.
    Key,
    /// The user wants the stream to end.
    Signal,
}

/// A client.
pub(crate) struct Client {
    pub(crate) options: Options,
    pub(crate) formatter: Formatter,
    pub(crate) state: State,
    /// Whether a user types the commands.
    pub(crate) is_interactive: bool,
    /// Whether commands are read line by line, by whomever they are written.
    pub(crate) reads_lines: bool,
    pub(crate) preferences: Preferences,
    pub(crate) clock: Clock,
    /// The script that lines of the user debug.
    pub(crate) debugged: Option<DebugSession>,
    connection: Option<Connection>,
    has_connected: bool,
    /// What the server says of its commands, once somebody has asked.
    docs: Option<Rc<CommandDocs>>,
}

/// What commands have left the connection in.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) database: u64,
    pub(crate) in_transaction: bool,
    /// What SELECT will have done once EXEC runs it.
    queued_database: Option<u64>,
    /// Whether RESP3 is spoken.
    is_newer_protocol: bool,
    /// Channels and patterns that are listened to.
    pub(crate) subscriptions: u64,
}

impl Client {
    /// A client that has not connected yet.
    pub(crate) fn new(options: Options) -> Client {
        let formatter = Formatter::of(&options, std::io::stdout().is_terminal());
        Client {
            formatter,
            options,
            state: State::default(),
            is_interactive: false,
            reads_lines: false,
            preferences: Preferences::default(),
            clock: Clock::system(),
            debugged: None,
            connection: None,
            has_connected: false,
            docs: None,
        }
    }

    /// Whether there is a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Connects, signs in, selects the database, and agrees on the protocol. What the server
    /// refuses of that is told, and the connection stands all the same.
    pub(crate) fn connect(&mut self) -> Result<(), String> {
        self.connection = None;
        self.docs = None;
        self.connection = Some(Connection::dial(&self.options)?);
        // A connection that is made anew is in the database of the one before.
        let database = if self.has_connected { self.state.database } else { self.options.database };
        self.has_connected = true;
        self.state = State { database, ..State::default() };
        let words = login(&self.options);
        if !words.is_empty() {
            self.introduce(&words, "AUTH")?;
        }
        let number = database.to_string();
        if database != 0 && !self.introduce(&["SELECT", &number], &format!("SELECT {number}"))? {
            self.state.database = 0;
        }
        if self.speaks_newer() {
            self.state.is_newer_protocol = self.introduce(&["HELLO", "3"], "HELLO 3")?;
        }
        Ok(())
    }

    /// What the server says of its commands. While it cannot be asked, nothing is known.
    pub(crate) fn docs(&mut self) -> Rc<CommandDocs> {
        if let Some(docs) = &self.docs {
            return Rc::clone(docs);
        }
        let is_busy =
            self.state.in_transaction || self.state.subscriptions > 0 || self.debugged.is_some();
        let Some(connection) = self.connection.as_mut().filter(|_| !is_busy) else {
            return Rc::default();
        };
        let docs = match connection.call(&["COMMAND", "DOCS"]) {
            Ok(reply) => Rc::new(CommandDocs::read(&reply)),
            Err(_) => Rc::default(),
        };
        self.docs = Some(Rc::clone(&docs));
        docs
    }

    fn speaks_newer(&self) -> bool {
        let is_json = matches!(self.formatter.output, Output::Json | Output::QuotedJson);
        self.options.protocol.map_or(is_json, |version| version == 3)
    }

    /// Sends what a connection begins with; whether the server agrees.
    fn introduce(&mut self, words: &[impl AsRef<[u8]>], step: &str) -> Result<bool, String> {
        let connection = self.connection.as_mut().ok_or("Not connected")?;
        match connection.call(words) {
            Ok(Value::Error(line)) => {
                eprintln!("{step} failed: {}", String::from_utf8_lossy(&line));
                Ok(false)
            }
            Ok(_) => Ok(true),
            Err(failure) => {
                self.connection = None;
                Err(format!("Error: {failure}"))
            }
        }
    }

    /// The connection, made if there is none.
    pub(crate) fn connection(&mut self) -> Result<&mut Connection, String> {
        if self.connection.is_none() {
            self.connect()?;
        }
        self.connection.as_mut().ok_or_else(|| "Not connected".to_owned())
    }

    /// The reply to a request that is not the user's own; an error reply is an error.
    pub(crate) fn ask(&mut self, words: &[impl AsRef<[u8]>]) -> Result<Value, String> {
        let reply = self.connection()?.call(words);
        match reply {
            Ok(Value::Error(line)) => Err(String::from_utf8_lossy(&line).into_owned()),
            Ok(reply) => Ok(reply),
            Err(failure) => {
                self.connection = None;
                Err(format!("Error: {failure}"))
            }
        }
    }

    /// The replies to requests that are sent together; error replies are among them.
    pub(crate) fn ask_all(&mut self, requests: &[Vec<Vec<u8>>]) -> Result<Vec<Value>, String> {
        let replies = self.connection()?.call_all(requests);
        replies.map_err(|failure| self.lost(&failure))
    }

    /// Runs a command and shows what the server answers. A connection that was lost in between is
    /// made once more.
    pub(crate) fn run(&mut self, words: &[Vec<u8>]) -> Result<Outcome, String> {
        let had_connection = self.is_connected();
        self.connection()?;
        match self.exchange(words) {
            Err(Failure::Closed | Failure::Io(_)) if had_connection && self.may_run_again() => {
                self.connect()?;
                self.exchange(words).map_err(|failure| self.lost(&failure))
            }
            other => other.map_err(|failure| self.lost(&failure)),
        }
    }

    /// A command that is sent once more may run twice; so that is only done where a user reads
    /// along, as redis-cli does.
    fn may_run_again(&self) -> bool {
        self.is_interactive && !self.state.in_transaction
    }

    fn lost(&mut self, failure: &Failure) -> String {
        self.connection = None;
        self.state = State { database: self.state.database, ..State::default() };
        format!("Error: {failure}")
    }

    fn exchange(&mut self, words: &[Vec<u8>]) -> Result<Outcome, Failure> {
        let kind = Kind::of(words);
        let connection = self.connection.as_mut().ok_or(Failure::Closed)?;
        connection.send(words)?;
        match kind {
            Kind::Monitor => return self.stream(),
            Kind::Subscribe => return self.subscribe(words),
            Kind::Replica => return self.follow_primary(),
            Kind::Shutdown | Kind::Text | Kind::Plain => {}
        }
        let reply = match self.answer() {
            // The server has done as it was told.
            Err(Failure::Closed) if kind == Kind::Shutdown => {
                self.connection = None;
                return Ok(Outcome::Answered);
            }
            reply => reply?,
        };
        let reply = self.follow_redirections(words, reply)?;
        self.state.learn(words, &reply);
        if let Value::Error(line) = &reply
            && self.options.fails_on_errors
        {
            eprintln!("{}", String::from_utf8_lossy(line));
            return Ok(Outcome::Refused);
        }
        if let Some(is_coloured) = self.preferences.colours {
            self.formatter.is_coloured = is_coloured;
        }
        let text = match kind {
            Kind::Text => self.formatter.format_text(&reply),
            _ => self.formatter.format(&reply),
        };
        if !(self.is_interactive && self.preferences.pages && page(&text)) {
            print(&text);
        }
        Ok(match reply {
            Value::Error(_) => Outcome::Refused,
            _ => Outcome::Answered,
        })
    }

    /// The next reply that is no pushed message; those are shown on the way.
    fn answer(&mut self) -> Result<Value, Failure> {
        loop {
            let connection = self.connection.as_mut().ok_or(Failure::Closed)?;
            match connection.receive() {
                Ok(Value::Push(items)) => self.show_push(items),
                other => return other,
            }
        }
    }

    fn show_push(&self, items: Vec<Value>) {
        let usual = std::io::stdout().is_terminal();
        if !self.options.shows_pushes.unwrap_or(usual) {
            return;
        }
        match items.as_slice() {
            [name, Value::Array(keys)] if name.as_bytes() == Some(b"invalidate") => {
                let keys = keys.iter().filter_map(Value::as_bytes);
                let names: Vec<_> = keys.map(|key| format!("'{}'", escape(key))).collect();
                print(format!("-> invalidate: {}\n", names.join(", ")).as_bytes());
            }
            _ => print(&self.formatter.format(&Value::Push(items))),
        }
    }

    /// Goes where nodes of a cluster say that a key is, if the options want that.
    fn follow_redirections(
        &mut self,
        words: &[Vec<u8>],
        mut reply: Value,
    ) -> Result<Value, Failure> {
        for _ in 0..REDIRECTIONS_MAX {
            let redirection = Redirection::of(&reply).filter(|_| self.options.follows_redirections);
            let Some(redirection) = redirection else { break };
            let Redirection { slot, host, port, is_once } = redirection;
            if self.reads_lines && self.formatter.output == Output::Standard {
                let line = format!("-> Redirected to slot [{slot}] located at {host}:{port}\n");
                print(line.as_bytes());
            }
            if !host.is_empty() {
                self.options.host = host;
            }
            self.options.port = port;
            self.connect().map_err(|why| Failure::Io(std::io::Error::other(why)))?;
            let connection = self.connection.as_mut().ok_or(Failure::Closed)?;
            if is_once {
                connection.call(&["ASKING"])?;
            }
            connection.send(words)?;
            reply = self.answer()?;
        }
        Ok(reply)
    }

    /// Shows what comes until a signal, an error, or the end of the connection.
    fn stream(&mut self) -> Result<Outcome, Failure> {
        loop {
            if self.show_arrived()? == Some(Outcome::Refused) {
                return Ok(Outcome::Refused);
            }
            if let Some(pause) = self.wait_for_message(false)? {
                self.leave(pause);
                return Ok(Outcome::Answered);
            }
        }
    }

    /// Shows what a primary sends to its replicas, for as long as it does.
    fn follow_primary(&mut self) -> Result<Outcome, Failure> {
        print(b"Entering replica output mode...  (press Ctrl-C to quit)\n");
        let connection = self.connection.as_mut().ok_or(Failure::Closed)?;
        match follow(connection) {
            Err(_) if interrupt::was_asked() => {
                self.leave(Pause::Signal);
                Ok(Outcome::Answered)
            }
            Err(reason) => {
                eprintln!("{reason}");
                self.leave(Pause::Signal);
                Ok(Outcome::Refused)
            }
            Ok(()) => Ok(Outcome::Answered),
        }
    }

    /// Shows what has come; an error among it ends a stream.
    fn show_arrived(&mut self) -> Result<Option<Outcome>, Failure> {
        let mut seen = None;
        while let Some(reply) = self.connection.as_mut().ok_or(Failure::Closed)?.parsed()? {
            self.state.learn_subscription(&reply);
            seen = Some(match reply {
                Value::Error(_) => Outcome::Refused,
                _ => Outcome::Answered,
            });
            print(&self.formatter.format(&as_list(reply)));
        }
        Ok(seen)
    }

    /// Takes in a message, unless a signal or, where that is wanted, a key comes first.
    fn wait_for_message(&mut self, heeds_keys: bool) -> Result<Option<Pause>, Failure> {
        let connection = self.connection.as_mut().ok_or(Failure::Closed)?;
        let input = std::io::stdin();
        match connection.wait(heeds_keys.then(|| input.as_fd()), None) {
            Ok(Waited::Ready) => connection.take_in().map(|()| None),
            Ok(Waited::Other) => Ok(Some(Pause::Key)),
            Err(Failure::Interrupted) if interrupt::was_asked() => Ok(Some(Pause::Signal)),
            Ok(Waited::TooLong) | Err(Failure::Interrupted) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Ends a stream of messages: after a signal the connection is of no more use.
    fn leave(&mut self, pause: Pause) {
        if pause == Pause::Signal {
            self.connection = None;
            self.state = State { database: self.state.database, ..State::default() };
        }
    }

    fn subscribe(&mut self, words: &[Vec<u8>]) -> Result<Outcome, Failure> {
        let name = words[0].to_ascii_lowercase();
        let is_end = name.windows(5).any(|part| part == b"unsub");
        if self.formatter.output != Output::Raw && !is_end {
            let keys = if self.is_interactive { " or any key to type command" } else { "" };
            print(format!("Reading messages... (press Ctrl-C to quit{keys})\n").as_bytes());
        }
        let _keys = self.is_interactive.then(CbreakMode::begin);
        loop {
            match self.show_arrived()? {
                Some(Outcome::Refused) => return Ok(Outcome::Refused),
                Some(Outcome::Answered) if self.state.subscriptions == 0 => {
                    return Ok(Outcome::Answered);
                }
                _ => {}
            }
            if let Some(pause) = self.wait_for_message(self.is_interactive)? {
                self.leave(pause);
                return Ok(Outcome::Answered);
            }
        }
    }
}

/// How often one command is sent elsewhere.
const REDIRECTIONS_MAX: usize = 16;

/// Where a node of a cluster says that a slot is.
struct Redirection {
    slot: String,
    host: String,
    port: u16,
    /// For this command only.
    is_once: bool,
}

impl Redirection {
    fn of(reply: &Value) -> Option<Redirection> {
        let Value::Error(line) = reply else { return None };
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split(' ');
        let kind = words.next().filter(|kind| matches!(*kind, "MOVED" | "ASK"))?;
        let (slot, place) = (words.next()?, words.next()?);
        let (host, port) = place.rsplit_once(':')?;
        Some(Redirection {
            slot: slot.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
            is_once: kind == "ASK",
        })
    }
}

/// What is special about a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Nothing.
    Plain,
    /// The reply is a text of its own.
    Text,
    /// The server may be gone before it answers.
    Shutdown,
    /// A stream of lines follows.
    Monitor,
    /// A stream of messages follows.
    Subscribe,
    /// A snapshot and a stream of commands follow.
    Replica,
}

impl Kind {
    fn of(words: &[Vec<u8>]) -> Kind {
        let lower = |at: usize| words.get(at).map(|word| word.to_ascii_lowercase());
        let (name, second) = (lower(0).unwrap_or_default(), lower(1).unwrap_or_default());
        match (name.as_slice(), second.as_slice()) {
            (b"shutdown", _) => Kind::Shutdown,
            (b"monitor", _) => Kind::Monitor,
            (b"sync" | b"psync", _) => Kind::Replica,
            (b"subscribe" | b"psubscribe" | b"ssubscribe", _) => Kind::Subscribe,
            (b"unsubscribe" | b"punsubscribe" | b"sunsubscribe", _) => Kind::Subscribe,
            (b"info" | b"lolwut", _)
            | (b"debug", b"htstats" | b"htstats-key" | b"client-eviction")
            | (b"memory", b"malloc-stats" | b"doctor")
            | (b"cluster", b"nodes" | b"info")
            | (b"client", b"list" | b"info")
            | (b"latency", b"graph" | b"doctor")
            | (b"proxy", b"info") => Kind::Text,
            _ => Kind::Plain,
        }
    }
}

impl State {
    /// Takes in what a reply says of the connection.
    fn learn(&mut self, words: &[Vec<u8>], reply: &Value) {
        let name = words[0].to_ascii_lowercase();
        let is_error = matches!(reply, Value::Error(_));
        let argument = || std::str::from_utf8(words.get(1)?).ok()?.parse::<u64>().ok();
        match name.as_slice() {
            // An EXEC that is refused has ended its transaction as well.
            b"exec" | b"discard" if self.in_transaction => {
                let queued = self.queued_database.take();
                if name == b"exec" && matches!(reply, Value::Array(_)) {
                    self.database = queued.unwrap_or(self.database);
                }
                self.in_transaction = false;
            }
            _ if is_error => {}
            b"multi" => self.in_transaction = true,
            b"select" if self.in_transaction => self.queued_database = argument(),
            b"select" => self.database = argument().unwrap_or(self.database),
            b"hello" => {
                self.is_newer_protocol = argument().map_or(self.is_newer_protocol, |it| it == 3);
            }
            b"reset" => *self = State::default(),
            _ => {}
        }
    }

    /// Takes in how many channels are listened to, if a message says so.
    fn learn_subscription(&mut self, reply: &Value) {
        let (Value::Array(items) | Value::Push(items)) = reply else { return };
        if let [kind, _, Value::Integer(count)] = items.as_slice()
            && kind.as_bytes().is_some_and(|kind| kind.ends_with(b"subscribe"))
        {
            self.subscriptions = u64::try_from(*count).unwrap_or_default();
        }
    }
}

/// A message of RESP3 looks as that of RESP2 does.
fn as_list(reply: Value) -> Value {
    match reply {
        Value::Push(items) => Value::Array(items),
        other => other,
    }
}

/// The words by which the client logs in; none if there is no password.
fn login(options: &Options) -> Vec<String> {
    match options.login.clone() {
        Login { user: Some(user), password: Some(password) } => vec!["AUTH".into(), user, password],
        Login { user: None, password: Some(password) } => vec!["AUTH".into(), password],
        Login { password: None, .. } => Vec::new(),
    }
}

/// Writes to the standard output at once. A reader that has gone away ends the process, as the
/// signal would have.
pub(crate) fn print(text: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text).and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
