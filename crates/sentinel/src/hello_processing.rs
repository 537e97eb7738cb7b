//! The consequences of a hello: other Sentinels are met, epochs and addresses are taken over.
//!
//! Invariants: a Sentinel is known by its id, once under each primary; an address is taken over
//! only with a configuration epoch that is higher than the own one.

use crate::address::Address;
use crate::context::Context;
use crate::engine::Sentinel;
use crate::failover_state_machine::FailoverRole;
use crate::hello::Hello;
use crate::notice::Level;
use crate::primary::Primary;

impl Sentinel {
    /// Takes a hello, whichever way it came.
    pub(crate) fn take_hello(&mut self, payload: &[u8]) {
        let Some(hello) = Hello::read(payload) else { return };
        if hello.id == self.context.my_id || !self.primaries.contains_key(&hello.name) {
            return;
        }
        let is_known = self.meet(&hello);
        let context = &mut self.context;
        let Some(primary) = self.primaries.get_mut(&hello.name) else { return };
        primary.head.adopt_epoch(context, hello.epoch);
        if is_known {
            primary.take_configuration(context, &hello);
            if let Some(peer) = primary.peers.get_mut(&hello.id) {
                peer.last_hello_at = context.now;
            }
        }
    }

    /// Makes sure that the sender is known, at the address that it names.
    fn meet(&mut self, hello: &Hello) -> bool {
        let context = &mut self.context;
        let Ok(address) = context.address_of(&hello.host, hello.port) else { return false };
        let Some(primary) = self.primaries.get_mut(&hello.name) else { return false };
        let known = primary.peers.get(&hello.id);
        if known.is_some_and(|peer| peer.instance.address.is_same(&address)) {
            return true;
        }
        if known.is_some() {
            self.move_peer(hello, &address);
            return true;
        }
        let at_it = |primary: &Primary| {
            let found =
                primary.peers.values().find(|peer| peer.instance.address.is_same(&address))?;
            Some(found.id.clone())
        };
        if let Some(other) = at_it(primary) {
            self.drop_peer(&hello.name, &other);
        }
        let context = &mut self.context;
        let Some(primary) = self.primaries.get_mut(&hello.name) else { return false };
        if !primary.add_peer(context, &hello.id, address) {
            return false;
        }
        let text = primary.peers.get(&hello.id).map(|peer| primary.head.peer_text(peer, context));
        context.notify(Level::Notice, "+sentinel", text.expect("it was just added"));
        context.persist();
        true
    }

    /// A known Sentinel is at another address now, under all primaries.
    fn move_peer(&mut self, hello: &Hello, address: &Address) {
        let context = &mut self.context;
        let mut moved = 0;
        for primary in self.primaries.values_mut() {
            let is_named = primary.head.name == hello.name;
            let Some(peer) = primary.peers.get_mut(&hello.id) else { continue };
            if is_named {
                let text = primary.head.text(context);
                let (host, port, id) = (&hello.host, hello.port, &hello.id);
                let text = format!("{text} ip {host} port {port} for {id}");
                context.notify(Level::Notice, "+sentinel-address-switch", text);
                context.close_all(peer.instance.link);
                context.links.get_mut(peer.instance.link).tried_at = None;
            } else {
                moved += 1;
            }
            peer.instance.address = address.clone();
            (peer.says_down, peer.leader) = (false, None);
        }
        if let Some(primary) = self.primaries.get(&hello.name).filter(|_| moved > 0)
            && let Some(peer) = primary.peers.get(&hello.id)
        {
            let text = primary.head.peer_text(peer, context);
            let text = format!("{text} {moved} additional matching instances");
            context.notify(Level::Notice, "+sentinel-address-update", text);
        }
        context.persist();
    }

    /// Another Sentinel is where this one was: this one is forgotten everywhere.
    fn drop_peer(&mut self, name: &str, id: &str) {
        let context = &mut self.context;
        if let Some(primary) = self.primaries.get(name)
            && let Some(peer) = primary.peers.get(id)
        {
            let text = primary.head.peer_text(peer, context);
            context.notify(Level::Notice, "+sentinel-invalid-addr", text);
        }
        for primary in self.primaries.values_mut() {
            if let Some(peer) = primary.peers.remove(id) {
                context.release(peer.instance.link);
            }
        }
        context.persist();
    }
}

impl Primary {
    /// Takes over which instance is primary, if the sender knows it by a later configuration.
    fn take_configuration(&mut self, context: &mut Context, hello: &Hello) {
        if hello.config_epoch < self.head.config_epoch {
            return;
        }
        // The address of a name may still be asked about: then a later hello will do.
        let Ok(to) = context.address_of(&hello.primary_host, hello.primary_port) else { return };
        if hello.config_epoch == self.head.config_epoch {
            self.resolve_collision(context, hello, &to);
            return;
        }
        self.head.config_epoch = hello.config_epoch;
        context.persist();
        // Where a replica is promoted here, the later word of another counts, too.
        if self.current_address().is_same(&to) {
            return;
        }
        if let Some(peer) = self.peers.get(&hello.id) {
            let text = self.head.peer_text(peer, context);
            self.head.warn(context, "+config-update-from", text);
        }
        if !self.head.instance.address.is_same(&to) {
            self.announce_switch(context, &to);
            self.run_reconfig_script(context, FailoverRole::Observer, &to);
        }
        self.change_address(context, to);
    }

    /// Two failovers had the same epoch, as those can that operators force in two places: neither
    /// address would ever give way. The Sentinel of the greater id claims a new epoch for its own.
    fn resolve_collision(&mut self, context: &mut Context, hello: &Hello, other: &Address) {
        let is_collision = hello.config_epoch > 0 && !self.current_address().is_same(other);
        let is_ours_to_do = context.my_id > hello.id && context.is_disk_trusted();
        if !is_collision || !is_ours_to_do || self.head.failover.is_running() {
            return;
        }
        let name = &self.head.name;
        let text = format!("Two addresses of {name} have the epoch {}", hello.config_epoch);
        context.log(Level::Warning, text);
        let epoch = context.current_epoch + 1;
        self.head.adopt_epoch(context, epoch);
        self.head.config_epoch = epoch;
        self.force_hellos(context);
    }
}
