//! Reads the file, as Redis 7 to 8 and Valkey 7 to 9 write it.
//!
//! Invariant: a file that was cut off in the midst of a line is not read, and of two lines of one
//! node, or two owners of one slot, neither is believed.

use std::collections::BTreeSet;
use std::fmt;

use super::{
    AuxFields, CLAIM_VARIABLE, FLAG_WORDS, GRANT_VARIABLE, NodeRecord, NodesFile, OpenSlot,
    SlotGrant,
};
use crate::flags::NodeFlags;
use crate::id::{NodeId, ShardId};
use crate::message::{EPOCH_MAX, is_hostname, is_word};
use crate::slots::{Slot, SlotSet};

/// What is wrong with a file, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodesFileError {
    /// The line, counted from one; 0 if it is none in particular.
    pub line: usize,
    /// The mistake.
    pub problem: &'static str,
}

impl fmt::Display for NodesFileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for NodesFileError {}

/// The bus is this far behind the port for clients where a line does not say.
const BUS_PORT_OFFSET: u16 = 10_000;

impl NodesFile {
    /// Reads the text of a file. `is_tls` says whether the bus is encrypted: the port in an address
    /// is the TLS port then, unless the line says otherwise.
    pub fn parse(text: &[u8], is_tls: bool) -> Result<NodesFile, NodesFileError> {
        let wrong = |line, problem| NodesFileError { line, problem };
        let text = std::str::from_utf8(text).map_err(|_| wrong(0, "not a text"))?;
        if !text.is_empty() && !text.ends_with('\n') {
            return Err(wrong(text.lines().count(), "cut off"));
        }
        let mut file = NodesFile::default();
        for (index, line) in text.lines().enumerate() {
            let fields: Vec<&str> = line.split_ascii_whitespace().collect();
            let read = match &fields[..] {
                [] => Ok(()),
                ["vars", pairs @ ..] => file.take_vars(pairs),
                fields => record(fields, is_tls).map(|node| file.nodes.push(node)),
            };
            read.map_err(|problem| wrong(index + 1, problem))?;
        }
        file.check().map_err(|problem| wrong(0, problem))?;
        Ok(file)
    }

    fn take_vars(&mut self, pairs: &[&str]) -> Result<(), &'static str> {
        if !pairs.len().is_multiple_of(2) {
            return Err("a variable without a value");
        }
        for pair in pairs.chunks_exact(2) {
            let number = || pair[1].parse().map_err(|_| "an epoch that is no number");
            match pair[0] {
                "currentEpoch" => self.current_epoch = number()?,
                "lastVoteEpoch" => self.last_vote_epoch = number()?,
                GRANT_VARIABLE => self.grants.push(grant(pair[1]).ok_or("no grant of slots")?),
                CLAIM_VARIABLE => {
                    self.claimed_epochs.push(claimed_epoch(pair[1]).ok_or("no epoch of a node")?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks what no line says by itself, and mends what older servers have left.
    fn check(&mut self) -> Result<(), &'static str> {
        let mut ids = BTreeSet::new();
        let mut taken = SlotSet::empty();
        for node in &self.nodes {
            if !ids.insert(node.id) {
                return Err("two lines of one node");
            }
            if !node.slots.iter().all(|slot| taken.insert(slot)) {
                return Err("a slot of two nodes");
            }
        }
        let mut own = self.nodes.iter().filter(|node| node.flags.contains(NodeFlags::MYSELF));
        if own.next().is_none() || own.next().is_some() {
            return Err("not exactly one node is myself");
        }
        let highest = self.nodes.iter().map(|node| node.config_epoch).max().unwrap_or(0);
        self.current_epoch = self.current_epoch.max(highest);
        let granted = self.grants.iter().map(|grant| grant.last_epoch).max().unwrap_or(0);
        if self.current_epoch.max(self.last_vote_epoch).max(granted) > EPOCH_MAX {
            return Err("an epoch out of range");
        }
        let shards: Vec<_> = self.nodes.iter().map(|node| (node.id, node.aux.shard)).collect();
        for node in &mut self.nodes {
            let primary = shards.iter().find(|(id, _)| Some(*id) == node.primary);
            if let Some((_, Some(shard))) = primary {
                node.aux.shard = Some(*shard);
            }
        }
        Ok(())
    }
}

/// Reads `node:epoch`.
fn claimed_epoch(text: &str) -> Option<(NodeId, u64)> {
    let (id, epoch) = text.split_once(':')?;
    Some((NodeId::parse(id.as_bytes())?, epoch.parse().ok()?))
}

/// Reads `target:first:last:slots,..`, with the epochs in the midst.
fn grant(text: &str) -> Option<SlotGrant> {
    let mut parts = text.split(':');
    let target = NodeId::parse(parts.next()?.as_bytes())?;
    let (first, last) = (parts.next()?, parts.next()?);
    let (first_epoch, last_epoch) = (first.parse().ok()?, last.parse().ok()?);
    let mut slots = SlotSet::empty();
    parts.next()?.split(',').try_for_each(|range| take_range(&mut slots, range)).ok()?;
    let is_whole = parts.next().is_none() && !slots.is_empty() && first_epoch <= last_epoch;
    is_whole.then_some(SlotGrant { target, first_epoch, last_epoch, slots })
}

fn record(fields: &[&str], is_tls: bool) -> Result<NodeRecord, &'static str> {
    let [id, address, flags, primary, sent, received, epoch, link, slots @ ..] = fields else {
        return Err("too few fields");
    };
    let number = |text: &str| text.parse::<u64>().map_err(|_| "not a number");
    let flags = read_flags(flags)?;
    let is_replica = flags.contains(NodeFlags::REPLICA);
    let mut node = NodeRecord {
        id: NodeId::parse(id.as_bytes()).ok_or("not a node id")?,
        ip: None,
        tcp_port: 0,
        tls_port: 0,
        bus_port: 0,
        aux: AuxFields::default(),
        flags,
        primary: match *primary {
            "-" => None,
            id => Some(NodeId::parse(id.as_bytes()).ok_or("not the id of a primary")?),
        },
        ping_sent: number(sent)?,
        pong_received: number(received)?,
        config_epoch: if is_replica { 0 } else { number(epoch)? },
        is_connected: *link == "connected",
        slots: SlotSet::empty(),
        open_slots: Vec::new(),
    };
    number(epoch)?;
    if node.primary.is_some() != is_replica && !is_replica {
        return Err("a primary with a primary");
    }
    take_address(&mut node, address, is_tls)?;
    for word in slots {
        take_slots(&mut node, word)?;
    }
    Ok(node)
}

fn read_flags(text: &str) -> Result<NodeFlags, &'static str> {
    let mut flags = NodeFlags::default();
    for word in text.split(',') {
        let word = match word {
            "noflags" => continue,
            "primary" => "master",
            "replica" => "slave",
            word => word,
        };
        let known = FLAG_WORDS.iter().find(|(name, _)| *name == word);
        flags = flags.with(known.ok_or("an unknown flag")?.1);
    }
    match (flags.contains(NodeFlags::PRIMARY), flags.contains(NodeFlags::REPLICA)) {
        (true, true) => Err("both a master and a slave"),
        (false, false) => Ok(flags.with(NodeFlags::PRIMARY)),
        _ => Ok(flags),
    }
}

/// Takes `ip:port@bus,hostname,name=value..`.
fn take_address(node: &mut NodeRecord, text: &str, is_tls: bool) -> Result<(), &'static str> {
    let mut parts = text.split(',');
    let address = parts.next().unwrap_or_default();
    let (client, bus) = address.split_once('@').map_or((address, None), |(a, b)| (a, Some(b)));
    let (ip, port) = client.rsplit_once(':').ok_or("an address without a port")?;
    if !ip.is_empty() {
        node.ip = Some(ip.parse().map_err(|_| "not an address")?);
    }
    let number = |text: &str| text.parse::<u16>().map_err(|_| "not a port");
    let port = number(port)?;
    node.bus_port = bus.map_or(Ok(port.saturating_add(BUS_PORT_OFFSET)), number)?;
    (node.tcp_port, node.tls_port) = if is_tls { (0, port) } else { (port, 0) };
    // Redis 7.0 takes all behind the first comma for the host name, and writes it back.
    if let Some(hostname) = parts.next().filter(|hostname| !hostname.is_empty()) {
        node.aux.hostname = Some(hostname.to_owned()).filter(|hostname| is_hostname(hostname));
        node.aux.hostname.as_ref().ok_or("not a host name")?;
    }
    for part in parts {
        let (name, value) = part.split_once('=').ok_or("a field without a value")?;
        match name {
            "tcp-port" => (node.tcp_port, node.tls_port) = (number(value)?, port),
            "tls-port" => (node.tcp_port, node.tls_port) = (port, number(value)?),
            name => take_aux(&mut node.aux, name, value)?,
        }
    }
    Ok(())
}

fn take_aux(aux: &mut AuxFields, name: &str, value: &str) -> Result<(), &'static str> {
    let word = || is_word(value).then(|| value.to_owned()).ok_or("not a name");
    let port = || value.parse::<u16>().map_err(|_| "not a port");
    match name {
        "nodename" => aux.human_name = Some(word()?),
        "shard-id" => {
            let id = NodeId::parse(value.as_bytes()).ok_or("not a shard id")?;
            aux.shard = Some(ShardId(id));
        }
        "client-ipv4" => match value.parse() {
            Ok(ip) => aux.client.ipv4 = Some(ip),
            // Valkey writes the secret of Redis 8 here, and cannot read that itself.
            Err(_) if NodeId::parse(value.as_bytes()).is_some() => {}
            Err(_) => return Err("not an IPv4 address"),
        },
        "client-ipv6" => aux.client.ipv6 = Some(value.parse().map_err(|_| "not IPv6")?),
        "client-tcp-port" => aux.client.port = Some(port()?),
        "client-tls-port" => aux.client.tls_port = Some(port()?),
        "availability-zone" => aux.availability_zone = Some(word()?),
        _ => return Err("an unknown field"),
    }
    Ok(())
}

fn take_slots(node: &mut NodeRecord, word: &str) -> Result<(), &'static str> {
    if let Some(open) = word.strip_prefix('[').and_then(|word| word.strip_suffix(']')) {
        let id = |text: &str| NodeId::parse(text.as_bytes()).ok_or("not the id of a node");
        let (number, state) = match (open.split_once("->-"), open.split_once("-<-")) {
            (Some((number, to)), _) => (number, OpenSlot::Migrating(id(to)?)),
            (_, Some((number, from))) => (number, OpenSlot::Importing(id(from)?)),
            _ => return Err("an open slot without a direction"),
        };
        if !node.flags.contains(NodeFlags::MYSELF) {
            return Err("an open slot of another node");
        }
        node.open_slots.push((slot(number)?, state));
        return Ok(());
    }
    take_range(&mut node.slots, word)
}

fn take_range(slots: &mut SlotSet, word: &str) -> Result<(), &'static str> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    let (first, last) = (slot(first)?, slot(last)?);
    for number in first.get()..=last.get() {
        slots.insert(Slot::new(number).expect("between two slots there are only slots"));
    }
    Ok(())
}

fn slot(text: &str) -> Result<Slot, &'static str> {
    text.parse().ok().and_then(Slot::new).ok_or("not a slot")
}
