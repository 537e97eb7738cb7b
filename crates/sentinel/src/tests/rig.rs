//! One Sentinel among instances that answer at once what the test has told them to.
//!
//! Invariant: time passes only by `run`, in steps of a tenth of a second.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

use base::Random;
use proto::value::{ReplyParser, Value};
use proto::{OwnedArgs, Resp};

use crate::event::{Action, ClientId, ConnectionId, Event, Millis, Purpose};
use crate::notice::Level;
use crate::{Options, Sentinel};

pub(super) const OWN_ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
pub(super) const PEER_ID: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
pub(super) const OTHER_ID: &str = "cccccccccccccccccccccccccccccccccccccccc";

/// How an instance answers.
#[derive(Clone, Debug, Default)]
pub(super) struct Answers {
    /// To INFO.
    pub(super) info: String,
    /// To PING, if it is not PONG.
    pub(super) ping: Option<Value>,
    /// To SENTINEL is-master-down-by-addr.
    pub(super) vote: Option<(i64, String, i64)>,
    /// The same, whatever it is.
    pub(super) answer: Option<Value>,
    /// To EXEC, if it is not an empty array.
    pub(super) exec: Option<Value>,
}

pub(super) struct Rig {
    pub(super) engine: Sentinel,
    pub(super) now: Millis,
    pub(super) disk: Vec<u8>,
    pub(super) is_disk_full: bool,
    /// Those that are not here refuse connections.
    pub(super) alive: BTreeMap<SocketAddr, Answers>,
    /// Events, as `<name> <text>`.
    pub(super) events: Vec<String>,
    /// Commands, as `<port>: <words>`.
    pub(super) sent: Vec<String>,
    /// Scripts, as `<path> <arguments>`.
    pub(super) scripts: Vec<String>,
    pub(super) questions: Vec<String>,
    pub(super) persists: usize,
    pub(super) replies: Vec<(ClientId, String)>,
    pub(super) crash: Option<i32>,
    connections: BTreeMap<ConnectionId, (SocketAddr, Purpose)>,
    /// What the others do at once.
    reactions: VecDeque<Event>,
}

pub(super) fn options() -> Options {
    let is_executable = Box::new(|path: &str| path.starts_with("/bin/"));
    Options { port: 26379, requirepass: None, log_level: Level::Notice, is_executable }
}

/// The address of a server on this machine.
pub(super) fn at(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// INFO of a primary with these replicas.
pub(super) fn primary_info(replicas: &[u16]) -> Answers {
    let mut info = format!("run_id:{}\r\nrole:master\r\n", "1".repeat(40));
    for (index, port) in replicas.iter().enumerate() {
        info += &format!("slave{index}:ip=127.0.0.1,port={port},state=online\r\n");
    }
    Answers { info, ..Answers::default() }
}

/// INFO of a replica that has become a primary.
pub(super) fn promoted_info() -> Answers {
    let mut answers = primary_info(&[]);
    answers.info = answers.info.replace(&"1".repeat(40), &"2".repeat(40));
    answers
}

/// INFO of a replica.
pub(super) fn replica_info(of: u16, link: &str, priority: u32, offset: u64) -> Answers {
    let info = format!(
        "run_id:{}\r\nrole:slave\r\nmaster_host:127.0.0.1\r\nmaster_port:{of}\r\n\
         master_link_status:{link}\r\nslave_priority:{priority}\r\nslave_repl_offset:{offset}\r\n\
         replica_announced:1\r\n",
        "2".repeat(40)
    );
    Answers { info, ..Answers::default() }
}

impl Rig {
    /// A Sentinel with this configuration behind its id, which has been called once.
    pub(super) fn new(text: &str) -> Rig {
        let disk = format!("sentinel myid {OWN_ID}\n{text}").into_bytes();
        let now = 1_700_000_000_000;
        let random = Random::from_seed(1);
        let (engine, actions) = Sentinel::start(options(), &disk, now, random).unwrap();
        let mut rig = Rig {
            engine,
            now,
            disk,
            is_disk_full: false,
            alive: BTreeMap::new(),
            events: Vec::new(),
            sent: Vec::new(),
            scripts: Vec::new(),
            questions: Vec::new(),
            persists: 0,
            replies: Vec::new(),
            crash: None,
            connections: BTreeMap::new(),
            reactions: VecDeque::new(),
        };
        rig.carry_out(actions);
        rig
    }

    /// Lets so many milliseconds pass.
    pub(super) fn run(&mut self, time: Millis) {
        for _ in 0..time / 100 {
            self.now += 100;
            self.handle(Event::Tick);
        }
    }

    /// The events since the last time that they were asked for.
    pub(super) fn take_events(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    /// What was sent since the last time, without what is sent all the time.
    pub(super) fn take_orders(&mut self) -> Vec<String> {
        let usual = ["PING", "INFO", "PUBLISH", "SUBSCRIBE", "CLIENT SETNAME"];
        let is_order = |sent: &String| {
            !usual.iter().any(|word| sent.split_once(": ").unwrap().1.starts_with(word))
        };
        std::mem::take(&mut self.sent).into_iter().filter(is_order).collect()
    }

    /// Tells the engine of something, and then of all that comes of it.
    pub(super) fn handle(&mut self, event: Event) {
        self.reactions.push_back(event);
        while let Some(event) = self.reactions.pop_front() {
            let actions = self.engine.handle(self.now, event);
            self.carry_out(actions);
        }
    }

    /// Sends a command as a client: the reply, its line ends as `|`.
    pub(super) fn command(&mut self, line: &str) -> String {
        let words = base::quote::split_arguments(line.as_bytes()).unwrap();
        let args: OwnedArgs = words.iter().map(Vec::as_slice).collect();
        self.handle(Event::Command { client: ClientId(1), resp: Resp::Two, args });
        self.replies.pop().map(|(_, text)| text).unwrap_or_default()
    }

    /// Publishes a hello at one of the servers.
    pub(super) fn hello(&mut self, hello: &str) {
        let is_it = |(_, (_, purpose)): &(&ConnectionId, &(SocketAddr, Purpose))| {
            *purpose == Purpose::Messages
        };
        let (connection, _) = self.connections.iter().find(is_it).expect("one is subscribed");
        let parts = ["message", "__sentinel__:hello", hello];
        let parts = parts.map(|part| Value::Bulk(part.as_bytes().to_vec()));
        let connection = *connection;
        self.handle(Event::Received { connection, value: Value::Array(parts.into()) });
    }

    /// A server dies: its connections break.
    pub(super) fn kill(&mut self, port: u16) {
        self.alive.remove(&at(port));
        self.disconnect(port);
    }

    /// The connections to a server break.
    pub(super) fn disconnect(&mut self, port: u16) {
        let open: Vec<ConnectionId> = self.connections_to(port);
        for connection in open {
            self.connections.remove(&connection);
            self.handle(Event::Disconnected { connection });
        }
    }

    pub(super) fn connections_to(&self, port: u16) -> Vec<ConnectionId> {
        let to = self.connections.iter().filter(|(_, (to, _))| *to == at(port));
        to.map(|(connection, _)| *connection).collect()
    }

    fn carry_out(&mut self, mut actions: Vec<Action>) {
        if matches!(actions.first(), Some(Action::Persist)) {
            self.persists += 1;
            if self.is_disk_full {
                actions = self.engine.persist_failed(actions);
            } else {
                self.disk = self.engine.rewritten(&self.disk);
            }
        }
        for action in actions {
            self.carry_out_one(action);
        }
    }

    fn carry_out_one(&mut self, action: Action) {
        match action {
            Action::Persist | Action::ScheduleTick { .. } | Action::Log { .. } => {}
            Action::SetLogLevel(_) | Action::KillScript { .. } => {}
            Action::Notify(notice) => {
                self.events.push(format!("{} {}", notice.event, notice.text));
            }
            Action::Reply { client, bytes, .. } => {
                let text = String::from_utf8(bytes).unwrap();
                self.replies.push((client, text.replace("\r\n", "|")));
            }
            Action::Connect { connection, to, purpose } => {
                if self.alive.contains_key(&to) {
                    self.connections.insert(connection, (to, purpose));
                    let local = [127, 0, 0, 9].into();
                    self.reactions.push_back(Event::Connected { connection, local });
                } else {
                    self.reactions.push_back(Event::Disconnected { connection });
                }
            }
            Action::Close { connection } => {
                self.connections.remove(&connection);
            }
            Action::Send { connection, command, .. } => self.answer(connection, &command),
            Action::RunScript { path, arguments, .. } => {
                self.scripts.push(format!("{path} {}", arguments.join(" ")));
            }
            Action::Resolve { host } => self.questions.push(host),
            Action::Crash { status } => self.crash = Some(status),
        }
    }

    fn answer(&mut self, connection: ConnectionId, command: &OwnedArgs) {
        let Some((to, purpose)) = self.connections.get(&connection).copied() else { return };
        let words: Vec<String> = command
            .as_args()
            .iter()
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        self.sent.push(format!("{}: {}", to.port(), words.join(" ")));
        let answers = self.alive[&to].clone();
        if purpose == Purpose::Messages {
            return;
        }
        let value = match words[0].as_str() {
            "PING" => answers.ping.unwrap_or(Value::Simple(b"PONG".to_vec())),
            "INFO" => Value::Bulk(answers.info.into_bytes()),
            "PUBLISH" => Value::Integer(1),
            "EXEC" => answers.exec.unwrap_or(Value::Array(Vec::new())),
            "SENTINEL" if answers.answer.is_some() => answers.answer.unwrap(),
            "SENTINEL" => {
                let (is_down, leader, epoch) = answers.vote.unwrap_or((0, "*".to_owned(), 0));
                let leader = Value::Bulk(leader.into_bytes());
                Value::Array(vec![Value::Integer(is_down), leader, Value::Integer(epoch)])
            }
            _ => Value::Simple(b"OK".to_vec()),
        };
        self.reactions.push_back(Event::Received { connection, value });
    }
}

/// The value that a reply parses to.
pub(super) fn value(text: &str) -> Value {
    let mut parser = ReplyParser::default();
    parser.feed(text.replace('|', "\r\n").as_bytes());
    parser.next_reply().unwrap().expect("it is complete")
}
