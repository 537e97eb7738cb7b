//! The consequences of INFO from a primary or a replica.
//!
//! Invariant: in TILT what instances say is written down, and nothing is done about it.

use crate::Millis;
use crate::address::Address;
use crate::context::Context;
use crate::failover::Stage;
use crate::info::{InfoReport, Role};
use crate::instance::Node;
use crate::notice::Level;
use crate::primary::{Primary, PrimaryState, Reconf, Replica};

/// The consequence of a replica's INFO for its primary.
enum Outcome {
    Nothing,
    Promoted,
}

impl Primary {
    /// Takes INFO of the primary.
    pub(crate) fn refresh_primary(&mut self, context: &mut Context, text: Vec<u8>) {
        let report = InfoReport::read(&text);
        let head_text = self.head.text(context);
        self.head.node.take_run_id(context, &report, &head_text);
        for (host, port) in &report.replicas {
            if let Ok(address) = context.address_of(host, *port) {
                self.add_new_replica(context, &address);
            }
        }
        self.head.node.take_role(context, &report, Role::Primary, &head_text);
        self.head.node.own_failover = report.own_failover;
        self.head.node.info = text;
        self.head.node.info_at = Some(context.now);
    }

    /// Takes INFO of a replica.
    pub(crate) fn refresh_replica(&mut self, context: &mut Context, name: &str, text: Vec<u8>) {
        let promoted = self.current_address().clone();
        let Some(replica) = self.replicas.get_mut(name) else { return };
        let report = InfoReport::read(&text);
        let replica_text = self.head.replica_text(replica, context);
        replica.node.take_run_id(context, &report, &replica_text);
        let was = replica.node.role;
        replica.node.take_role(context, &report, Role::Replica, &replica_text);
        if was == Role::Primary && replica.node.role == Role::Replica {
            replica.conf_since = context.now;
        }
        replica.take_report(context, &report);
        replica.node.info = text;
        replica.node.info_at = Some(context.now);
        if context.tilt.since.is_some() {
            return;
        }
        let outcome = match replica.node.role {
            Role::Primary => self.head.handle_primary_role(context, replica, &replica_text),
            Role::Replica => {
                self.head.handle_replica_role(context, replica, &replica_text, &promoted);
                Outcome::Nothing
            }
        };
        if let Outcome::Promoted = outcome {
            self.promoted(context, name);
        }
    }
}

impl Node {
    fn take_run_id(&mut self, context: &mut Context, report: &InfoReport<'_>, text: &str) {
        let Some(run_id) = report.run_id else { return };
        if self.run_id.as_deref().is_some_and(|known| known != run_id) {
            context.notify(Level::Notice, "+reboot", text.to_owned());
            self.rebooted_at = Some(context.now);
        }
        self.run_id = Some(run_id.to_owned());
    }

    fn take_role(&mut self, context: &mut Context, report: &InfoReport<'_>, own: Role, text: &str) {
        let Some(role) = report.role.filter(|role| *role != self.role) else { return };
        self.role = role;
        self.role_since = context.now;
        let event = if role == own { "+role-change" } else { "-role-change" };
        context.notify(
            Level::Verbose,
            event,
            format!("{text} new reported role is {}", role.word()),
        );
    }
}

impl Replica {
    fn take_report(&mut self, context: &Context, report: &InfoReport<'_>) {
        self.link_down = report.link_down.unwrap_or(0);
        self.node.own_failover = report.own_failover;
        if report.role != Some(Role::Replica) {
            return;
        }
        let now: Millis = context.now;
        if report.primary_host.is_some() && self.primary_host.as_deref() != report.primary_host {
            self.primary_host = report.primary_host.map(str::to_owned);
            self.conf_since = now;
        }
        if let Some(port) = report.primary_port
            && port != self.primary_port
        {
            self.primary_port = port;
            self.conf_since = now;
        }
        self.is_link_up = report.is_link_up.unwrap_or(self.is_link_up);
        self.priority = report.priority.unwrap_or(self.priority);
        self.offset = report.offset.unwrap_or(self.offset);
        self.is_announced = report.is_announced.unwrap_or(self.is_announced);
    }
}

impl PrimaryState {
    /// A replica says that it is a primary, as it was promoted, or has come back from the dead.
    fn handle_primary_role(&self, context: &mut Context, replica: &Replica, text: &str) -> Outcome {
        match &self.failover.stage {
            Stage::WaitPromotion(name) if *name == replica.name => return Outcome::Promoted,
            stage if stage.chosen() == Some(&replica.name) => return Outcome::Nothing,
            _ => {}
        }
        // Long enough for a hello to come, which would say that this is how it shall be.
        let patience = context.periods.publish * 4;
        let is_settled = context.now - replica.node.role_since > patience;
        let instance = &replica.instance;
        if self.looks_sane(context) && instance.was_up_for(context, patience) && is_settled {
            let address = &self.instance.address;
            if self.send_replicaof(context, instance, &replica.node, Some(address)) {
                context.notify(Level::Notice, "+convert-to-slave", text.to_owned());
            }
        }
        Outcome::Nothing
    }

    /// A replica says that it is one: of which primary, and how far it is on its way to a new
    /// primary.
    fn handle_replica_role(
        &self,
        context: &mut Context,
        replica: &mut Replica,
        text: &str,
        promoted: &Address,
    ) {
        let is_of = |address: &Address, replica: &Replica, context: &Context| {
            let host = replica.primary_host.as_deref();
            let is_at = |host| address.is_at(host, context.hosts.known(host));
            replica.primary_port == address.port && host.is_some_and(is_at)
        };
        let address = &self.instance.address;
        if replica.primary_host.is_some() && !is_of(address, replica, context) {
            let patience = self.settings.failover_timeout;
            let is_settled = context.now - replica.conf_since > patience;
            let was_up = replica.instance.was_up_for(context, patience);
            if self.looks_sane(context)
                && was_up
                && is_settled
                && self.send_replicaof(context, &replica.instance, &replica.node, Some(address))
            {
                context.notify(Level::Notice, "+fix-slave-config", text.to_owned());
            }
        }
        if matches!(replica.reconf, Reconf::Sent(_)) && is_of(promoted, replica, context) {
            replica.reconf = Reconf::InProgress;
            context.notify(Level::Notice, "+slave-reconf-inprog", text.to_owned());
        }
        if replica.reconf == Reconf::InProgress && replica.is_link_up {
            replica.reconf = Reconf::Done;
            context.notify(Level::Notice, "+slave-reconf-done", text.to_owned());
        }
    }
}
