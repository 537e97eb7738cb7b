//! A server in the simulation: a role, an offset, a file, and the commands that Sentinels send.
//!
//! Invariant: what CONFIG REWRITE has not written is lost in a reboot.

use base::Random;
use proto::value::Value;

/// The number of a machine.
pub(super) type Machine = usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NodeRole {
    Primary,
    ReplicaOf(Machine),
}

#[derive(Debug)]
pub(super) struct Server {
    pub(super) is_alive: bool,
    pub(super) role: NodeRole,
    /// The role that the file says.
    pub(super) written: NodeRole,
    pub(super) run_id: String,
    pub(super) offset: u64,
    pub(super) is_link_up: bool,
    pub(super) link_down_since: i64,
    pub(super) priority: u32,
}

impl Server {
    pub(super) fn new(role: NodeRole, random: &mut Random) -> Server {
        Server {
            is_alive: true,
            role,
            written: role,
            run_id: run_id(random),
            offset: 0,
            is_link_up: false,
            link_down_since: 0,
            priority: 1 + random.below(2) as u32,
        }
    }

    pub(super) fn crash(&mut self) {
        self.is_alive = false;
        self.is_link_up = false;
    }

    pub(super) fn boot(&mut self, now: i64, random: &mut Random) {
        self.is_alive = true;
        self.role = self.written;
        self.run_id = run_id(random);
        self.is_link_up = false;
        self.link_down_since = now;
    }

    pub(super) fn follow(&mut self, role: NodeRole, now: i64) {
        if self.role != role {
            self.role = role;
            self.is_link_up = false;
            self.link_down_since = now;
        }
    }
}

/// INFO of a node, whose replicas these are.
pub(super) fn info(node: &Server, replicas: &[Machine], now: i64) -> Value {
    use std::fmt::Write;
    let mut text = format!("run_id:{}\r\n", node.run_id);
    let mut line = |arguments: std::fmt::Arguments<'_>| {
        text.write_fmt(arguments).unwrap();
        text.push_str("\r\n");
    };
    match node.role {
        NodeRole::Primary => {
            line(format_args!("role:master"));
            for (index, machine) in replicas.iter().enumerate() {
                line(format_args!("slave{index}:ip={},port=6379,state=online", host(*machine)));
            }
        }
        NodeRole::ReplicaOf(primary) => {
            line(format_args!("role:slave\r\nmaster_host:{}\r\nmaster_port:6379", host(primary)));
            let status = if node.is_link_up { "up" } else { "down" };
            line(format_args!("master_link_status:{status}"));
            if !node.is_link_up {
                let seconds = (now - node.link_down_since) / 1000;
                line(format_args!("master_link_down_since_seconds:{seconds}"));
            }
            line(format_args!("slave_priority:{}", node.priority));
            line(format_args!("slave_repl_offset:{}\r\nreplica_announced:1", node.offset));
        }
    }
    line(format_args!("master_failover_state:no-failover"));
    Value::Bulk(text.into_bytes())
}

/// The IP of a machine.
pub(super) fn host(machine: Machine) -> String {
    format!("10.0.0.{}", machine + 1)
}

/// The machine of an IP.
pub(super) fn machine(host: &[u8]) -> Machine {
    let text = std::str::from_utf8(host).unwrap();
    text.rsplit('.').next().unwrap().parse::<usize>().unwrap() - 1
}

pub(super) fn run_id(random: &mut Random) -> String {
    (0..40).map(|_| char::from(b"0123456789abcdef"[random.below(16) as usize])).collect()
}
