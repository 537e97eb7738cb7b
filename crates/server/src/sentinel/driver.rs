//! The thread of a Sentinel, which feeds events, one at a time, and carries out what comes of each.
//!
//! Invariants: a list of actions is carried out before the next event is fed; what a list promises
//! is on disk before; ticks come before all else, so no flood of news or requests puts them off.

use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base::io_error_text::strerror;
use config::{LogLevel, SetError};
use engine::clients::mailbox::PendingWakes;
use engine::journal::ReplyLsn;
use engine::observe::pubsub::PubSubType;
use engine::runtime::log::{log_notice, log_warning};
use engine::session::{AfterOffload, ExecutedCommand, OffloadResult};
use keyspace::Refusal;
use proto::{Output, Reply, Resp};
use sentinel::{
    Action, ClientId, ConnectionId, Event, Level, Millis, ScriptEnd, ScriptId, Sentinel,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Sleep;

use super::file;
use super::link::{self, Outbound};
use super::requests::{RequestKind, SentinelRequest};
use super::script::{self, RunningScript};
use crate::net::network::Network;

/// How much news may wait; a task that brings more waits, too.
const NEWS_MAX: usize = 16;

/// CONFIG SET of `loglevel` to a word.
pub(super) type ChangeLogLevel = Box<dyn Fn(&[u8]) -> Result<(), SetError> + Send>;

/// A client that waits for its reply.
struct Asker {
    resp: Resp,
    ran: ExecutedCommand,
    answer: oneshot::Sender<OffloadResult>,
    since_us: i64,
}

/// What drives a Sentinel.
pub(super) struct Driver {
    server: &'static Network,
    change_log_level: ChangeLogLevel,
    sentinel: Sentinel,
    tick: Pin<Box<Sleep>>,
    links: HashMap<ConnectionId, Outbound>,
    scripts: HashMap<ScriptId, RunningScript>,
    askers: HashMap<ClientId, Asker>,
    next_asker: u64,
    /// What came of an action at once, for when its list is carried out.
    pending: VecDeque<Event>,
    /// Cloned by each task that will have news.
    reporter: mpsc::Sender<Event>,
    news: mpsc::Receiver<Event>,
    requests: mpsc::UnboundedReceiver<SentinelRequest>,
    /// News and requests take turns.
    is_turn_of_news: bool,
    stop: oneshot::Receiver<()>,
}

/// What the driver is woken for.
enum Call {
    Event(Event),
    Request(SentinelRequest),
    Stop,
}

/// The time of a Sentinel, which begins with the wall clock's, and no operator can set it.
pub(super) fn now(server: &Network) -> Millis {
    server.identity.started + server.keyspace.clock().monotonic_us() / 1000
}

impl Driver {
    /// To be called within the runtime of its thread.
    pub(super) fn new(
        server: &'static Network,
        change_log_level: ChangeLogLevel,
        sentinel: Sentinel,
        requests: mpsc::UnboundedReceiver<SentinelRequest>,
        stop: oneshot::Receiver<()>,
    ) -> Self {
        let (reporter, news) = mpsc::channel(NEWS_MAX);
        Self {
            server,
            change_log_level,
            sentinel,
            tick: Box::pin(tokio::time::sleep(Duration::ZERO)),
            links: HashMap::new(),
            scripts: HashMap::new(),
            askers: HashMap::new(),
            next_asker: 0,
            pending: VecDeque::new(),
            reporter,
            news,
            requests,
            is_turn_of_news: false,
            stop,
        }
    }

    /// Runs until it is stopped; `first` is what the Sentinel wants to begin with.
    pub(super) async fn run(mut self, first: Vec<Action>) {
        self.run_actions(first);
        loop {
            let event = match self.pending.pop_front() {
                Some(event) => event,
                None => match poll_fn(|cx| self.poll_call(cx)).await {
                    Call::Event(event) => event,
                    Call::Request(request) => {
                        self.take_request(request);
                        continue;
                    }
                    Call::Stop => return,
                },
            };
            self.feed(event);
        }
    }

    fn poll_call(&mut self, cx: &mut Context<'_>) -> Poll<Call> {
        // The handle that would stop the driver may be gone as well.
        if Pin::new(&mut self.stop).poll(cx).is_ready() {
            return Poll::Ready(Call::Stop);
        }
        if self.tick.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Call::Event(Event::Tick));
        }
        for _ in 0..2 {
            self.is_turn_of_news = !self.is_turn_of_news;
            let call = if self.is_turn_of_news {
                self.news.poll_recv(cx).map(|event| event.map(Call::Event))
            } else {
                self.requests.poll_recv(cx).map(|request| request.map(Call::Request))
            };
            if let Poll::Ready(Some(call)) = call {
                return Poll::Ready(call);
            }
        }
        Poll::Pending
    }

    fn feed(&mut self, event: Event) {
        match &event {
            Event::Disconnected { connection } => _ = self.links.remove(connection),
            Event::ScriptEnded { script, .. } => _ = self.scripts.remove(script),
            _ => {}
        }
        let actions = self.sentinel.handle(now(self.server), event);
        self.run_actions(actions);
    }

    fn take_request(&mut self, request: SentinelRequest) {
        let SentinelRequest { kind, resp, ran, answer } = request;
        let since_us = self.server.keyspace.clock().monotonic_us();
        let asker = Asker { resp, ran, answer, since_us };
        match kind {
            RequestKind::Info(mut text) => {
                text.push_str(&self.sentinel.info_section());
                let mut output = Output::new();
                Reply::new(&mut output, resp).verbatim(b"txt", text.as_bytes());
                self.answer(asker, output, false);
            }
            RequestKind::Command(args) => {
                self.next_asker += 1;
                let client = ClientId(self.next_asker);
                self.askers.insert(client, asker);
                self.feed(Event::Command { client, resp, args });
            }
        }
    }

    /// Sends an answer; its session may be gone.
    fn answer(&self, asker: Asker, output: Output, failed: bool) {
        let Asker { ran, answer, since_us, .. } = asker;
        let micros = self.server.keyspace.clock().monotonic_us() - since_us;
        let ran = ExecutedCommand { micros: u64::try_from(micros).unwrap_or(0), failed, ..ran };
        let _ = answer.send(OffloadResult {
            output,
            seen: ReplyLsn::default(),
            ran,
            then: AfterOffload::Nothing,
        });
    }

    fn reply(&mut self, client: ClientId, bytes: &[u8]) {
        let Some(asker) = self.askers.remove(&client) else { return };
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, asker.resp);
        let error = bytes.strip_prefix(b"-").and_then(|line| line.strip_suffix(b"\r\n"));
        match error {
            Some(line) => self.server.refuse(&Refusal::owned(line.to_vec()), &mut reply),
            None => reply.raw(bytes),
        }
        self.answer(asker, output, error.is_some());
    }

    fn run_actions(&mut self, mut actions: Vec<Action>) {
        // The level of the log is a line of the file, too.
        for action in &actions {
            if let Action::SetLogLevel(level) = action {
                self.set_log_level(*level);
            }
        }
        if matches!(actions.first(), Some(Action::Persist)) {
            match file::write(self.server, &self.sentinel) {
                Ok(()) => {
                    log_notice!(self.server.log, "Sentinel new configuration saved on disk");
                }
                Err(error) => {
                    let why = strerror(&error);
                    log_warning!(self.server.log, "Error writing the configuration file: {why}");
                    actions = self.sentinel.persist_failed(actions);
                }
            }
        }
        actions.into_iter().for_each(|action| self.run_action(action));
    }

    fn run_action(&mut self, action: Action) {
        match action {
            Action::Persist | Action::SetLogLevel(_) => {}
            Action::Reply { client, bytes, .. } => self.reply(client, &bytes),
            Action::Connect { connection, to, .. } => {
                let outbound = link::connect(self.server, connection, to, self.reporter.clone());
                self.links.insert(connection, outbound);
            }
            Action::Close { connection } => _ = self.links.remove(&connection),
            Action::Send { connection, command, .. } => {
                let outbound = self.links.get(&connection);
                if outbound.is_some_and(|outbound| outbound.try_send(command).is_err()) {
                    // The link takes nothing any more, or is lost, which it also tells itself.
                    self.pending.push_back(Event::Disconnected { connection });
                }
            }
            Action::Notify(notice) => {
                self.log(notice.level, &format!("{} {}", notice.event, notice.text));
                let (server, wakes) = (self.server, PendingWakes::default());
                let (channel, message) = (notice.event.as_bytes(), notice.text.as_bytes());
                server.pushes.pubsub.publish(
                    server.outbox(&wakes),
                    PubSubType::Global,
                    channel,
                    message,
                );
                server.mailboxes.wake(&wakes);
            }
            Action::Log { level, text } => self.log(level, &text),
            Action::RunScript { script, path, arguments } => {
                match script::start(script, &path, &arguments, self.reporter.clone()) {
                    Some((running, pid)) => {
                        self.scripts.insert(script, running);
                        self.pending.push_back(Event::ScriptStarted { script, pid });
                    }
                    None => {
                        let end = ScriptEnd::NotStarted;
                        self.pending.push_back(Event::ScriptEnded { script, end });
                    }
                }
            }
            Action::KillScript { script } => _ = self.scripts.remove(&script),
            Action::Resolve { host } => resolve(host, self.reporter.clone()),
            Action::ScheduleTick { after } => {
                self.tick.set(tokio::time::sleep(Duration::from_millis(after)));
            }
            Action::Crash { status } => std::process::exit(status),
        }
    }

    fn log(&self, level: Level, text: &str) {
        let level = match level {
            Level::Debug => LogLevel::Debug,
            Level::Verbose => LogLevel::Verbose,
            Level::Notice => LogLevel::Notice,
            Level::Warning | Level::Nothing => LogLevel::Warning,
        };
        self.server.log.write(level, format_args!("{text}"));
    }

    fn set_log_level(&self, level: Level) {
        if let Err(error) = (self.change_log_level)(level.word().as_bytes()) {
            log_warning!(self.server.log, "The level of the log stays as it is: {error:?}");
        }
    }
}

/// Looks a host up, away from the loop.
fn resolve(host: String, news: mpsc::Sender<Event>) {
    tokio::spawn(async move {
        let found = tokio::net::lookup_host((host.as_str(), 0)).await;
        let ip = found.ok().and_then(|mut found| found.next()).map(|address| address.ip());
        // The driver listens no more when the process is about to end.
        let _ = news.send(Event::Resolved { host, ip }).await;
    });
}
