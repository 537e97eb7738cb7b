//! The clients that look on while an act is run, and what they are told of it.
//!
//! Invariant: each hears a fence last; what came before that is told of the act.

use proto::value::Value;
use tests::Client;
use tests::render::{render, text};
use tests::server::eventually;

use super::acts::{Act, Form};
use super::scene::{Scene, expand};
use super::seen::{Effect, Seen, of_monitor};
use super::ways::Way;

/// The clients that look on while an act is run.
pub(super) struct Observers {
    pub(super) ear: Client,
    pub(super) tracker: Client,
    pub(super) prefix_tracker: Client,
    /// Where the actor's tracking tells.
    pub(super) keeper: Option<Client>,
    pub(super) watcher: Client,
    pub(super) monitor: Client,
    /// What was shown so far of what counts.
    pub(super) shown: Vec<Value>,
    pub(super) waiter: Option<Client>,
}

impl Scene {
    /// Has all of them come.
    pub(super) fn come(&mut self, way: Way, act: &Act) -> Observers {
        let server = &self.server;
        let (mut ear, mut tracker, mut prefix_tracker) =
            (server.client(), server.client3(), server.client3());
        ear.call(&["PSUBSCRIBE", "__keyevent@*", "fence"]);
        ear.receive();
        tracker.call(&["SUBSCRIBE", "fence"]);
        tracker.call(&["CLIENT", "TRACKING", "ON"]);
        tracker.call(&["TYPE", "t"]);
        prefix_tracker.call(&["SUBSCRIBE", "fence"]);
        prefix_tracker.call(&["CLIENT", "TRACKING", "ON", "BCAST"]);
        let keeper = (act.is_tracked && way.may_track()).then(|| {
            let mut keeper = server.client3();
            keeper.call(&["SUBSCRIBE", "fence"]);
            let id = keeper.id();
            let words = ["CLIENT", "TRACKING", "ON", "REDIRECT", &id, "NOLOOP"];
            assert_eq!(text(&self.actor.call(&words)), "OK");
            if matches!(act.form, Form::Wait(..)) {
                // What changes it for the client is the client's own change.
                self.actor.call(&["TYPE", "t"]);
            }
            keeper
        });
        let (mut watcher, mut monitor) = (server.client(), server.client());
        watcher.call(&["WATCH", "t"]);
        monitor.call(&["MONITOR"]);
        // No client of a replica waits for what it would take.
        let waits = !act.waits.is_empty()
            && way != Way::Replay
            && (way != Way::Stream || act.waits.starts_with("XREAD "));
        let waiter = waits.then(|| {
            let mut waiter = server.client();
            waiter.send(&expand(act.waits));
            let admin = &mut self.admin;
            eventually("the other waits", || admin.info("blocked_clients") == "1");
            waiter
        });
        let shown = Vec::new();
        Observers { ear, tracker, prefix_tracker, keeper, watcher, monitor, shown, waiter }
    }

    /// Has all observers pass over what they were told so far.
    pub(super) fn fence(&mut self, on: &mut Observers) -> [Vec<Value>; 5] {
        self.ask("PUBLISH fence here");
        let Observers { ear, tracker, prefix_tracker, keeper, monitor, .. } = on;
        let heard = keeper.as_mut().map(up_to_fence).unwrap_or_default();
        let [events, told, told_by_prefix, monitored] =
            [ear, tracker, prefix_tracker, monitor].map(up_to_fence);
        [events, told, told_by_prefix, heard, monitored]
    }

    /// What the observers were told. Returns where the actor's tracking tells.
    pub(super) fn hear(&mut self, mut on: Observers, way: Way, seen: &mut Seen) -> Option<Client> {
        let [events, told, told_by_prefix, told_actor, monitored] = self.fence(&mut on);
        let event = |told: &Value| {
            let Value::Array(parts) = told else { panic!("a message") };
            let [channel, key] = [&parts[2], &parts[3]].map(text);
            format!("{} {key}", channel.rsplit(':').next().expect("a name"))
        };
        seen.add(Effect::Events, events.iter().map(event).collect::<Vec<_>>().join(", "));
        seen.add(Effect::Told, notices(&told));
        seen.add(Effect::ToldByPrefix, notices(&told_by_prefix));
        seen.add(Effect::Remembered, notices(&told_actor));
        let shown = [std::mem::take(&mut on.shown), monitored].concat();
        seen.add(Effect::Monitored, of_monitor(&shown, way));
        on.watcher.call(&["MULTI"]);
        let is_broken = matches!(on.watcher.call(&["EXEC"]), Value::Null | Value::NullArray);
        seen.add(Effect::Watch, if is_broken { "broken" } else { "" }.to_owned());
        if let Some(waiter) = &mut on.waiter {
            // A client that was not served waits still.
            let id = self.blocked();
            let served = match id {
                Some(_) => String::new(),
                None => render(&waiter.receive()),
            };
            seen.add(Effect::Waiter, served);
        }
        on.keeper
    }

    /// What the actor's tracking tells of a change by another, which leaves the data as they were.
    pub(super) fn told_of_copy(&mut self, keeper: &mut Client) -> String {
        let lines = match self.other.call(&["EXISTS", "t"]) {
            Value::Integer(1) => ["RENAME t aside", "RENAME aside t"],
            _ => ["SET t x", "DEL t"],
        };
        lines.iter().for_each(|line| self.ask_words(&expand(line)));
        self.ask("PUBLISH fence here");
        notices(&up_to_fence(keeper))
    }
}

/// What a client hears before the fence.
fn up_to_fence(client: &mut Client) -> Vec<Value> {
    let mut heard = Vec::new();
    loop {
        let told = client.receive();
        if render(&told).contains("fence") {
            return heard;
        }
        heard.push(told);
    }
}

/// Notices of tracking.
fn notices(told: &[Value]) -> String {
    let notice = |told: &Value| {
        let Value::Push(parts) = told else { panic!("a push: {told:?}") };
        render(&parts[1]).replace('\n', " ")
    };
    told.iter().map(notice).collect::<Vec<_>>().join(", ")
}
