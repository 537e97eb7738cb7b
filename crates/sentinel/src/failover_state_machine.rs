//! The failover of a primary, from its start to the day after.
//!
//! Invariants: a replica is promoted by the elected Sentinel, or by an operator's order; only until
//! the replica says that it is a primary can a failover be given up; from then on the new address
//! is what everybody is told.

use crate::address::Address;
use crate::context::{CRASH_STATUS, Context, Promise};
use crate::event::Action;
use crate::failover::{FailoverKind, Stage};
use crate::links::PendingReply;
use crate::notice::Level;
use crate::primary::{Primary, Reconf, Replica};
use crate::watch::send_step;

/// The part of this Sentinel in a failover, for the reconfiguration script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailoverRole {
    Leader,
    Observer,
}

impl Primary {
    /// Begins a failover if it is needed, and goes on with the one that runs.
    pub(crate) fn fail_over(&mut self, context: &mut Context) {
        let is_new = self.start_failover_if_needed(context);
        if is_new {
            self.ask_peers(context, true);
        }
        match self.head.failover.stage.clone() {
            Stage::None | Stage::UpdateConfig(_) => {}
            Stage::WaitStart => self.wait_for_election(context),
            Stage::SelectReplica => self.select_replica(context),
            Stage::SendNoOne(name) => self.send_no_one(context, name),
            Stage::WaitPromotion(name) => self.wait_for_promotion(context, &name),
            Stage::ReconfReplicas(name) => self.reconfigure_replicas(context, name),
        }
        self.ask_peers(context, false);
    }

    fn wait_for_election(&mut self, context: &mut Context) {
        let epoch = self.head.failover.epoch;
        let leader = self.elected(context, epoch);
        let is_leader = leader.as_ref() == Some(&context.my_id)
            || self.head.failover.kind == FailoverKind::Forced;
        // The own vote counts once it is on disk, that is with the next tick.
        if !is_leader || !context.is_written() {
            let patience = context.periods.election.min(self.head.settings.failover_timeout);
            let started = self.head.failover.started_at.unwrap_or(context.now);
            if context.now - started > patience {
                self.abort_failover(context, "-failover-abort-not-elected");
            }
            return;
        }
        let text = self.head.text(context);
        self.head.warn(context, "+elected-leader", text.clone());
        if context.failures.after_election {
            context.push_action(Action::Crash { status: CRASH_STATUS });
            return;
        }
        self.head.failover.enter(Stage::SelectReplica, context.now);
        self.head.warn(context, "+failover-state-select-slave", text);
    }

    fn select_replica(&mut self, context: &mut Context) {
        let Some(replica) = self.best_replica(context) else {
            self.abort_failover(context, "-failover-abort-no-good-slave");
            return;
        };
        let (name, text) = (replica.name.clone(), self.head.replica_text(replica, context));
        self.head.warn(context, "+selected-slave", text.clone());
        self.head.failover.enter(Stage::SendNoOne(name), context.now);
        context.notify(Level::Notice, "+failover-state-send-slaveof-noone", text);
    }

    fn send_no_one(&mut self, context: &mut Context, name: String) {
        let is_sent = match self.head.failover.kind {
            FailoverKind::Coordinated => self.send_own_failover(context, &name),
            FailoverKind::Automatic | FailoverKind::Forced => {
                self.replicas.get(&name).is_some_and(|replica| {
                    let (instance, node) = (&replica.instance, &replica.node);
                    self.head.send_replicaof(context, instance, node, None)
                })
            }
        };
        if !is_sent {
            if self.is_stage_over(context) {
                self.abort_failover(context, "-failover-abort-slave-timeout");
            }
            return;
        }
        let text = self.replica_text(context, &name);
        context.notify(Level::Notice, "+failover-state-wait-promotion", text);
        self.head.failover.enter(Stage::WaitPromotion(name), context.now);
    }

    /// Lets the primary hand over to the replica itself: its writers wait, the replica catches up,
    /// the roles change.
    fn send_own_failover(&mut self, context: &mut Context, name: &str) -> bool {
        let Some(replica) = self.replicas.get(name) else { return false };
        let (head, link) = (&self.head, self.head.instance.link);
        if context.links.get(link).ready().is_none() {
            return false;
        }
        let address = &replica.instance.address;
        let (host, port) = (context.shown(address), address.port.to_string());
        let timeout = head.settings.failover_timeout.to_string();
        send_step(context, link, &[head.command("MULTI")]);
        send_step(context, link, &[head.command("CLIENT"), b"PAUSE", timeout.as_bytes(), b"WRITE"]);
        let words = [
            head.command("FAILOVER"),
            b"TO",
            host.as_bytes(),
            port.as_bytes(),
            b"TIMEOUT",
            timeout.as_bytes(),
        ];
        send_step(context, link, &words);
        context.send(link, PendingReply::HandOver, Promise::Yes, &[head.command("EXEC")])
    }

    /// The primary does not hand over: its writers need not wait any longer.
    pub(crate) fn hand_over_refused(&mut self, context: &mut Context) {
        let is_waiting = matches!(self.head.failover.stage, Stage::WaitPromotion(_));
        if is_waiting && self.head.failover.kind == FailoverKind::Coordinated {
            self.abort_failover(context, "-failover-abort-no-good-slave");
        }
    }

    /// After a coordinated failover both sides write it down and send their clients away.
    fn finish_own_failover(&self, context: &mut Context, name: &str) {
        let promoted = self.replicas.get(name).map(|replica| replica.instance.link);
        for link in promoted.into_iter().chain([self.head.instance.link]) {
            send_step(context, link, &[self.head.command("MULTI")]);
            self.head.send_aftercare(context, link);
            send_step(context, link, &[self.head.command("CLIENT"), b"UNPAUSE"]);
            send_step(context, link, &[self.head.command("EXEC")]);
        }
    }

    fn wait_for_promotion(&mut self, context: &mut Context, name: &str) {
        // INFO of the replica decides.
        if self.is_stage_over(context) || !self.replicas.contains_key(name) {
            self.abort_failover(context, "-failover-abort-slave-timeout");
        }
    }

    /// The replica has said that it is a primary: the failover cannot be given up any more.
    pub(crate) fn promoted(&mut self, context: &mut Context, name: &str) {
        if self.head.failover.epoch <= self.head.config_epoch {
            // Another configuration came first: no Sentinel would listen to the epoch of this one.
            let epoch = context.current_epoch + 1;
            self.head.adopt_epoch(context, epoch);
            self.head.failover.epoch = epoch;
        }
        self.head.config_epoch = self.head.failover.epoch;
        context.persist();
        if self.head.failover.kind == FailoverKind::Coordinated {
            self.finish_own_failover(context, name);
        }
        let text = self.replica_text(context, name);
        self.head.warn(context, "+promoted-slave", text);
        self.head.failover.enter(Stage::ReconfReplicas(name.to_owned()), context.now);
        if context.failures.after_promotion {
            context.push_action(Action::Crash { status: CRASH_STATUS });
            return;
        }
        let text = self.head.text(context);
        self.head.warn(context, "+failover-state-reconf-slaves", text);
        let to = self.current_address().clone();
        self.run_reconfig_script(context, FailoverRole::Leader, &to);
        self.force_hellos(context);
    }

    /// Tells the reconfiguration script that the address changes.
    pub(crate) fn run_reconfig_script(
        &self,
        context: &mut Context,
        part: FailoverRole,
        to: &Address,
    ) {
        let Some(path) = &self.head.settings.reconfig_script else { return };
        let from = &self.head.instance.address;
        let part = match part {
            FailoverRole::Leader => "leader",
            FailoverRole::Observer => "observer",
        };
        let arguments = vec![
            self.head.name.clone(),
            part.to_owned(),
            "start".to_owned(),
            context.shown(from),
            from.port.to_string(),
            context.shown(to),
            to.port.to_string(),
        ];
        context.scripts.add(path, arguments);
    }

    fn reconfigure_replicas(&mut self, context: &mut Context, promoted: String) {
        self.give_up_on_slow_replicas(context);
        let to = self.current_address().clone();
        let is_busy =
            |replica: &&Replica| matches!(replica.reconf, Reconf::Sent(_) | Reconf::InProgress);
        let busy = self.replicas.values().filter(is_busy).count();
        let mut free = (self.head.settings.parallel_syncs as usize).saturating_sub(busy);
        let others = self.replicas.values_mut().filter(|replica| replica.name != promoted);
        for replica in others.filter(|replica| replica.reconf == Reconf::None) {
            if free == 0 {
                break;
            }
            let (instance, node) = (&replica.instance, &replica.node);
            if self.head.send_replicaof(context, instance, node, Some(&to)) {
                replica.reconf = Reconf::Sent(context.now);
                let text = self.head.replica_text(replica, context);
                context.notify(Level::Notice, "+slave-reconf-sent", text);
                free -= 1;
            }
        }
        self.end_failover(context, promoted);
    }

    /// A replica that shows no sign of the order it was sent does not hold up the others.
    fn give_up_on_slow_replicas(&mut self, context: &mut Context) {
        let patience = context.periods.reconf_timeout;
        for replica in self.replicas.values_mut() {
            let Reconf::Sent(at) = replica.reconf else { continue };
            if context.now - at > patience {
                let text = self.head.replica_text(replica, context);
                context.notify(Level::Notice, "-slave-reconf-sent-timeout", text);
                replica.reconf = Reconf::Done;
            }
        }
    }

    /// Ends the failover when all replicas that can be reached follow the promoted one, or when
    /// the time is over.
    fn end_failover(&mut self, context: &mut Context, promoted: String) {
        let is_over = self.is_stage_over(context);
        let is_up = self.replicas.get(&promoted).is_some_and(|it| !it.instance.is_down());
        // A promoted replica that stays away is a primary that is down: as such it is failed
        // over, for which the switch must be made.
        if !is_up && !is_over {
            return;
        }
        let is_missing = |replica: &Replica| {
            let is_done = replica.name == promoted || replica.reconf == Reconf::Done;
            !is_done && !replica.instance.is_down()
        };
        let waits = self.replicas.values().any(is_missing);
        if !is_over && (waits || !self.is_aftercare_done(context, &promoted)) {
            return;
        }
        let text = self.head.text(context);
        if is_over {
            self.head.warn(context, "+failover-end-for-timeout", text.clone());
        }
        self.head.warn(context, "+failover-end", text);
        if is_over {
            self.reconfigure_the_rest(context, &promoted);
        }
        self.head.failover.enter(Stage::UpdateConfig(promoted), context.now);
    }

    /// Whether both sides of a coordinated failover have answered: with the switch the connections
    /// are closed, and an order to write the new role down could be lost.
    fn is_aftercare_done(&self, context: &Context, promoted: &str) -> bool {
        if self.head.failover.kind != FailoverKind::Coordinated {
            return true;
        }
        let promoted = self.replicas.get(promoted).map(|replica| replica.instance.link);
        let mut both = promoted.into_iter().chain([self.head.instance.link]);
        !both.any(|link| context.links.get(link).awaited.contains(&PendingReply::Nothing))
    }

    fn reconfigure_the_rest(&mut self, context: &mut Context, promoted: &str) {
        let to = self.current_address().clone();
        let others = self.replicas.values_mut().filter(|replica| replica.name != promoted);
        for replica in others.filter(|replica| replica.reconf == Reconf::None) {
            if self.head.send_replicaof(context, &replica.instance, &replica.node, Some(&to)) {
                replica.reconf = Reconf::Sent(context.now);
                let text = self.head.replica_text(replica, context);
                context.notify(Level::Notice, "+slave-reconf-sent-be", text);
            }
        }
    }

    fn is_stage_over(&self, context: &Context) -> bool {
        context.now - self.head.failover.stage_since > self.head.settings.failover_timeout
    }

    fn abort_failover(&mut self, context: &mut Context, event: &'static str) {
        let text = self.head.text(context);
        self.head.warn(context, event, text);
        let head = &mut self.head;
        let is_waiting = matches!(head.failover.stage, Stage::WaitPromotion(_));
        if is_waiting && head.failover.kind == FailoverKind::Coordinated {
            let link = head.instance.link;
            send_step(context, link, &[head.command("FAILOVER"), b"ABORT"]);
            send_step(context, link, &[head.command("CLIENT"), b"UNPAUSE"]);
        }
        head.failover.abort(context.now);
    }

    fn replica_text(&self, context: &Context, name: &str) -> String {
        let replica = self.replicas.get(name);
        replica.map_or_else(String::new, |replica| self.head.replica_text(replica, context))
    }
}
