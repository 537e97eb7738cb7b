//! Writes the file, and the lines of CLUSTER NODES, which are the same but for what stands behind
//! the host name.
//!
//! Invariant: a line has no blank but between its fields.

use std::fmt::Write;

use super::{
    CLAIM_VARIABLE, FLAG_WORDS, GRANT_VARIABLE, NodeRecord, NodesFile, OpenSlot, SlotGrant,
};
use crate::flags::NodeFlags;
use crate::slots::SlotSet;

impl NodesFile {
    /// The text of the file. `is_tls` says whether the bus is encrypted: the port in the address is
    /// the TLS port then.
    pub fn to_text(&self, is_tls: bool) -> String {
        let mut text = String::new();
        for node in &self.nodes {
            node.put_line(is_tls, true, &mut text);
            text.push('\n');
        }
        put(
            &mut text,
            format_args!(
                "vars currentEpoch {} lastVoteEpoch {}\n",
                self.current_epoch, self.last_vote_epoch
            ),
        );
        self.grants.iter().for_each(|grant| grant.put_line(&mut text));
        for (id, epoch) in &self.claimed_epochs {
            put(&mut text, format_args!("vars {CLAIM_VARIABLE} {id}:{epoch}\n"));
        }
        text
    }
}

impl SlotGrant {
    fn put_line(&self, text: &mut String) {
        let Self { target, first_epoch: first, last_epoch: last, slots } = self;
        let ranges = slots.ranges().into_iter().map(|(first, last)| format!("{first}-{last}"));
        let ranges = ranges.collect::<Vec<_>>().join(",");
        put(text, format_args!("vars {GRANT_VARIABLE} {target}:{first}:{last}:{ranges}\n"));
    }
}

impl NodeRecord {
    /// Appends the node's line, without its end. In the file it tells more than to clients.
    pub fn put_line(&self, is_tls: bool, is_of_file: bool, text: &mut String) {
        let (port, other_name, other_port) = if is_tls {
            (self.tls_port, "tcp-port", self.tcp_port)
        } else {
            (self.tcp_port, "tls-port", self.tls_port)
        };
        put(text, format_args!("{} ", self.id));
        if let Some(ip) = self.ip {
            put(text, format_args!("{ip}"));
        }
        put(text, format_args!(":{port}@{}", self.bus_port));
        if let Some(hostname) = &self.aux.hostname {
            put(text, format_args!(",{hostname}"));
        }
        if is_of_file {
            text.push_str(if self.aux.hostname.is_none() { "," } else { "" });
            put(text, format_args!(",{other_name}={other_port}"));
            self.put_aux(text);
        }
        text.push(' ');
        put_flags(self.flags, text);
        match self.primary {
            Some(primary) => put(text, format_args!(" {primary}")),
            None => text.push_str(" -"),
        }
        let link = if self.is_connected { "connected" } else { "disconnected" };
        let (sent, received, epoch) = (self.ping_sent, self.pong_received, self.config_epoch);
        put(text, format_args!(" {sent} {received} {epoch} {link}"));
        put_slots(&self.slots, text);
        for (slot, open) in &self.open_slots {
            match open {
                OpenSlot::Migrating(to) => put(text, format_args!(" [{slot}->-{to}]")),
                OpenSlot::Importing(from) => put(text, format_args!(" [{slot}-<-{from}]")),
            }
        }
    }

    fn put_aux(&self, text: &mut String) {
        let aux = &self.aux;
        if let Some(name) = &aux.human_name {
            put(text, format_args!(",nodename={name}"));
        }
        if let Some(shard) = aux.shard {
            put(text, format_args!(",shard-id={shard}"));
        }
        if let Some(ip) = aux.client.ipv4 {
            put(text, format_args!(",client-ipv4={ip}"));
        }
        if let Some(ip) = aux.client.ipv6 {
            put(text, format_args!(",client-ipv6={ip}"));
        }
        if let Some(port) = aux.client.port {
            put(text, format_args!(",client-tcp-port={port}"));
        }
        if let Some(port) = aux.client.tls_port {
            put(text, format_args!(",client-tls-port={port}"));
        }
        if let Some(zone) = &aux.availability_zone {
            put(text, format_args!(",availability-zone={zone}"));
        }
    }
}

fn put(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("a String takes everything");
}

fn put_flags(flags: NodeFlags, text: &mut String) {
    let words = FLAG_WORDS.iter().filter(|(_, flag)| flags.contains(*flag));
    let words: Vec<&str> = words.map(|(word, _)| *word).collect();
    text.push_str(&if words.is_empty() { "noflags".to_owned() } else { words.join(",") });
}

fn put_slots(slots: &SlotSet, text: &mut String) {
    for (first, last) in slots.ranges() {
        if first == last {
            put(text, format_args!(" {first}"));
        } else {
            put(text, format_args!(" {first}-{last}"));
        }
    }
}
