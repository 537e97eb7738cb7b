//! The common part of all instances: the time, the dice, the epoch, the links, the settings that
//! belong to no primary, and the actions that come of an event.
//!
//! Invariant: where the configuration has changed, the list of actions begins with its writing, so
//! whatever the list tells anybody is on disk before.

use std::net::IpAddr;

use base::Random;
use proto::OwnedArgs;

use crate::Millis;
use crate::address::{Address, Hosts};
use crate::event::{Action, ConnectionId, Purpose};
use crate::info::is_run_id;
use crate::links::{Channel, LinkId, Links, PendingReply};
use crate::notice::{Level, Notice};
use crate::periods::Periods;
use crate::scripts::Scripts;

/// Facts about the process in which a Sentinel lives.
pub struct Options {
    /// The port that it listens on, for hellos.
    pub port: u16,
    /// The password of AUTH here: other Sentinels are taken to want the same.
    pub requirepass: Option<Vec<u8>>,
    /// The least level of what is logged.
    pub log_level: Level,
    /// Whether a file is there and can be run.
    pub is_executable: Box<dyn Fn(&str) -> bool + Send>,
}

impl std::fmt::Debug for Options {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Options").field("port", &self.port).finish_non_exhaustive()
    }
}

/// The settings that belong to no primary.
#[derive(Clone, Debug)]
pub(crate) struct Globals {
    pub(crate) announce_ip: Option<String>,
    pub(crate) announce_port: Option<u16>,
    pub(crate) denies_scripts: bool,
    pub(crate) user: Option<Vec<u8>>,
    pub(crate) password: Option<Vec<u8>>,
}

impl Default for Globals {
    fn default() -> Globals {
        Globals {
            announce_ip: None,
            announce_port: None,
            denies_scripts: true,
            user: None,
            password: None,
        }
    }
}

/// The mode in which a Sentinel does not trust its clock.
#[derive(Debug, Default)]
pub(crate) struct Tilt {
    pub(crate) since: Option<Millis>,
    pub(crate) count: u64,
    /// The clock at the last tick.
    last_tick: Option<Millis>,
}

/// Whether what is written can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Disk {
    Trusted,
    Failed {
        retry_at: Millis,
    },
    /// A new attempt was made, and no failure was reported yet.
    Tried,
}

/// Where SENTINEL SIMULATE-FAILURE lets the process end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Failures {
    pub(crate) after_election: bool,
    pub(crate) after_promotion: bool,
}

impl Failures {
    /// As INFO shows them.
    pub(crate) fn flags(self) -> u8 {
        u8::from(self.after_election) | u8::from(self.after_promotion) << 1
    }
}

/// The status of a process that ends where SENTINEL SIMULATE-FAILURE asked for it.
pub(crate) const CRASH_STATUS: i32 = 99;

/// The common part of all instances.
#[derive(Debug)]
pub(crate) struct Context {
    /// The time that all goes by, which never goes back.
    pub(crate) now: Millis,
    /// The clock at the last event.
    clock: Millis,
    pub(crate) random: Random,
    pub(crate) options: Options,
    pub(crate) globals: Globals,
    pub(crate) periods: Periods,
    pub(crate) my_id: String,
    pub(crate) current_epoch: u64,
    pub(crate) tilt: Tilt,
    pub(crate) links: Links,
    pub(crate) hosts: Hosts,
    pub(crate) scripts: Scripts,
    pub(crate) failures: Failures,
    disk: Disk,
    is_dirty: bool,
    actions: Vec<Action>,
}

impl Context {
    pub(crate) fn new(options: Options, now: Millis, random: Random) -> Context {
        Context {
            now,
            clock: now,
            random,
            options,
            globals: Globals::default(),
            periods: Periods::default(),
            my_id: String::new(),
            current_epoch: 0,
            tilt: Tilt::default(),
            links: Links::default(),
            hosts: Hosts::default(),
            scripts: Scripts::default(),
            failures: Failures::default(),
            disk: Disk::Trusted,
            is_dirty: false,
            actions: Vec::new(),
        }
    }

    /// Takes what the clock says. Where that is set back, time stands still for a moment, so that
    /// nothing is put off for as long as it was set back.
    pub(crate) fn advance(&mut self, clock: Millis) {
        self.now += (clock - self.clock).max(0);
        self.clock = clock;
    }

    /// A new id, if there is none.
    pub(crate) fn ensure_id(&mut self) {
        if !is_run_id(&self.my_id) {
            let words: [u64; 3] = std::array::from_fn(|_| self.random.next_u64());
            let text = format!("{:016x}{:016x}{:08x}", words[0], words[1], words[2] as u32);
            self.my_id = text;
            self.persist();
        }
    }

    /// Asks for an action.
    pub(crate) fn push_action(&mut self, action: Action) {
        self.actions.push(action);
    }

    /// Has the configuration written before anything that this event leads to.
    pub(crate) fn persist(&mut self) {
        self.is_dirty = true;
    }

    /// The actions of an event.
    pub(crate) fn take_actions(&mut self) -> Vec<Action> {
        for host in self.hosts.take_questions() {
            self.actions.push(Action::Resolve { host });
        }
        if std::mem::take(&mut self.is_dirty) {
            self.actions.insert(0, Action::Persist);
        }
        std::mem::take(&mut self.actions)
    }

    /// Whether what a promise says would be on disk.
    pub(crate) fn is_disk_trusted(&self) -> bool {
        self.disk == Disk::Trusted
    }

    /// Whether all that has changed is on disk.
    pub(crate) fn is_written(&self) -> bool {
        !self.is_dirty && self.is_disk_trusted()
    }

    /// The configuration could not be written.
    pub(crate) fn note_disk_failed(&mut self) {
        self.disk = Disk::Failed { retry_at: self.now + 1000 };
    }

    /// Writes again after a while. If that does not fail, all is well with the next tick.
    pub(crate) fn retry_disk(&mut self) {
        match self.disk {
            Disk::Tried => self.disk = Disk::Trusted,
            Disk::Failed { retry_at } if self.now >= retry_at => {
                self.disk = Disk::Tried;
                self.persist();
            }
            Disk::Trusted | Disk::Failed { .. } => {}
        }
    }

    /// Writes to the log.
    pub(crate) fn log(&mut self, level: Level, text: String) {
        self.push_action(Action::Log { level, text });
    }

    /// An event that no script is told.
    pub(crate) fn notify(&mut self, level: Level, event: &'static str, text: String) {
        self.push_action(Action::Notify(Notice { level, event, text }));
    }

    /// An event that this script is told, too.
    pub(crate) fn warn(&mut self, script: Option<&str>, event: &'static str, text: String) {
        if let Some(path) = script {
            self.scripts.add(path, vec![event.to_owned(), text.clone()]);
        }
        self.notify(Level::Warning, event, text);
    }

    /// Looks for a jump of the clock or a pause of the process.
    pub(crate) fn check_tilt(&mut self) {
        let gap = self.tilt.last_tick.map_or(0, |last| self.clock - last);
        self.tilt.last_tick = Some(self.clock);
        if gap < 0 || gap > self.periods.tilt_trigger {
            if self.tilt.since.is_none() {
                self.tilt.count += 1;
            }
            self.tilt.since = Some(self.now);
            self.notify(Level::Warning, "+tilt", "#tilt mode entered".to_owned());
        }
    }

    /// Ends TILT when its time is over: whether it lasts.
    pub(crate) fn is_tilted(&mut self) -> bool {
        let Some(since) = self.tilt.since else { return false };
        if self.now - since < self.periods.tilt {
            return true;
        }
        self.tilt.since = None;
        self.notify(Level::Warning, "-tilt", "#tilt mode exited".to_owned());
        false
    }

    /// When the next tick is to be: 10 to 19 in a second, so that Sentinels that began together do
    /// not stay in step.
    pub(crate) fn schedule_tick(&mut self) {
        let after = 1000 / (10 + self.random.below(10));
        self.push_action(Action::ScheduleTick { after });
    }

    /// A random delay, so that candidates do not stay in step.
    pub(crate) fn desync(&mut self) -> Millis {
        self.random.below(1000) as Millis
    }

    /// How an address is shown.
    pub(crate) fn shown(&self, address: &Address) -> String {
        self.hosts.shown(address)
    }

    /// The host that hellos name as ours.
    pub(crate) fn own_host(&self, local: Option<IpAddr>) -> Option<String> {
        let announced = self.globals.announce_ip.clone();
        announced.or_else(|| local.map(|ip| ip.to_string()))
    }

    /// The port that hellos name as ours.
    pub(crate) fn own_port(&self) -> u16 {
        self.globals.announce_port.unwrap_or(self.options.port)
    }
}

/// Whether a command says what must be on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Promise {
    No,
    Yes,
}

impl Context {
    /// Sends a command over a link, if that is ready: whether it was.
    pub(crate) fn send(
        &mut self,
        link: LinkId,
        awaited: PendingReply,
        promise: Promise,
        words: &[&[u8]],
    ) -> bool {
        let link = self.links.get_mut(link);
        let Some(connection) = link.ready() else { return false };
        link.awaited.push_back(awaited);
        self.send_over(connection, promise, words);
        true
    }

    /// Sends a command over a connection that stands.
    pub(crate) fn send_over(
        &mut self,
        connection: ConnectionId,
        promise: Promise,
        words: &[&[u8]],
    ) {
        let command: OwnedArgs = words.iter().copied().collect();
        self.push_action(Action::Send { connection, command, is_promise: promise == Promise::Yes });
    }

    /// Makes the connections of a link that are missing.
    pub(crate) fn connect(&mut self, id: LinkId, address: &Address) {
        let Some(to) = address.socket() else { return };
        let now = self.now;
        if self.links.get(id).commands == Channel::Closed {
            let connection = self.links.connect(id);
            let link = self.links.get_mut(id);
            link.commands = Channel::Opening(connection);
            link.commands_since = now;
            self.push_action(Action::Connect { connection, to, purpose: Purpose::Commands });
        }
        if self.links.get(id).messages == Some(Channel::Closed) {
            let connection = self.links.connect(id);
            let link = self.links.get_mut(id);
            link.messages = Some(Channel::Opening(connection));
            (link.messages_since, link.message_at) = (now, now);
            self.push_action(Action::Connect { connection, to, purpose: Purpose::Messages });
        }
    }

    /// Closes one channel of a link.
    pub(crate) fn close(&mut self, channel: Channel) {
        if let Some(connection) = channel.connection() {
            self.links.forget(connection);
            self.push_action(Action::Close { connection });
        }
    }

    /// Closes all of a link, for an instance whose address has changed.
    pub(crate) fn close_all(&mut self, id: LinkId) {
        let open: Vec<_> = self.links.get(id).connections().collect();
        for connection in open {
            self.links.forget(connection);
            self.push_action(Action::Close { connection });
        }
    }

    /// Gives up one use of a link, and closes it with the last.
    pub(crate) fn release(&mut self, id: LinkId) {
        for connection in self.links.release(id) {
            self.push_action(Action::Close { connection });
        }
    }
}
