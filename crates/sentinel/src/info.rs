//! INFO of a primary or a replica: the lines that a Sentinel goes by.
//!
//! Invariants: any bytes are read without a panic; what is malformed is as if it were not there;
//! at most [`REPLICAS_MAX`] replicas are taken from one text.

use base::number::{parse_i64, parse_u64};

use crate::Millis;
use crate::address::is_host;

/// The two roles of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Primary,
    Replica,
}

impl Role {
    /// The word of INFO.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Role::Primary => "master",
            Role::Replica => "slave",
        }
    }
}

/// How far a FAILOVER of the instance is, as Valkey's and newer servers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OwnFailover {
    None,
    Running,
}

/// So many replicas of a primary are known.
pub(crate) const REPLICAS_MAX: usize = 1024;

/// The facts of one INFO.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct InfoReport<'a> {
    pub(crate) run_id: Option<&'a str>,
    pub(crate) role: Option<Role>,
    /// Hosts and ports.
    pub(crate) replicas: Vec<(&'a str, u16)>,
    pub(crate) link_down: Option<Millis>,
    pub(crate) primary_host: Option<&'a str>,
    pub(crate) primary_port: Option<u16>,
    pub(crate) is_link_up: Option<bool>,
    pub(crate) priority: Option<i64>,
    pub(crate) offset: Option<u64>,
    pub(crate) is_announced: Option<bool>,
    pub(crate) own_failover: Option<OwnFailover>,
}

impl<'a> InfoReport<'a> {
    /// Reads a text.
    pub(crate) fn read(text: &'a [u8]) -> InfoReport<'a> {
        let mut report = InfoReport::default();
        for line in text.split(|byte| *byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            let Some((name, value)) = line.trim_end_matches('\r').split_once(':') else { continue };
            report.take(name, value);
        }
        report
    }

    fn take(&mut self, name: &str, value: &'a str) {
        let bytes = value.as_bytes();
        match name {
            "run_id" if is_run_id(value) => self.run_id = Some(value),
            "role" if value == "master" => self.role = Some(Role::Primary),
            "role" if value == "slave" => self.role = Some(Role::Replica),
            "master_link_down_since_seconds" => {
                self.link_down = parse_i64(bytes).map(|seconds| seconds.saturating_mul(1000));
            }
            "master_host" if is_host(value) => self.primary_host = Some(value),
            "master_port" => self.primary_port = port(value),
            "master_link_status" => self.is_link_up = Some(value == "up"),
            "slave_priority" => self.priority = parse_i64(bytes),
            "slave_repl_offset" => self.offset = parse_u64(bytes),
            "replica_announced" => self.is_announced = parse_i64(bytes).map(|flag| flag != 0),
            "master_failover_state" => {
                let is_none = value == "no-failover";
                self.own_failover =
                    Some(if is_none { OwnFailover::None } else { OwnFailover::Running });
            }
            _ => self.take_replica(name, value),
        }
    }

    fn take_replica(&mut self, name: &str, value: &'a str) {
        let number = name.strip_prefix("slave").map(str::as_bytes);
        let is_numbered = number.is_some_and(|number| parse_u64(number).is_some());
        if !is_numbered || self.replicas.len() == REPLICAS_MAX {
            return;
        }
        let field = |key: &str| value.split(',').find_map(|field| field.strip_prefix(key));
        let (host, own_port) = match (field("ip="), field("port=")) {
            (Some(host), Some(port)) => (host, port),
            // Servers before 2.8 wrote the bare values.
            _ => match value.split(',').collect::<Vec<_>>()[..] {
                [host, port, ..] => (host, port),
                _ => return,
            },
        };
        if let Some(port) = port(own_port).filter(|_| is_host(host)) {
            self.replicas.push((host, port));
        }
    }
}

/// A port that something can listen on.
pub(crate) fn port(text: &str) -> Option<u16> {
    parse_u64(text.as_bytes()).and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0)
}

/// Whether a text may be the id of a process: 40 letters and digits.
pub(crate) fn is_run_id(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, prop};
    use proptest::{prop_assert, proptest};

    use super::{InfoReport, OwnFailover, REPLICAS_MAX, Role};

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn what_a_primary_says() {
        let text = format!(
            "# Server\r\nrun_id:{ID}\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:2\r\n\
             slave0:ip=10.0.0.1,port=6380,state=online,offset=14,lag=0\r\n\
             slave1:ip=::1,port=6381,state=online\r\nmaster_failover_state:no-failover\r\n"
        );
        let expected = InfoReport {
            run_id: Some(ID),
            role: Some(Role::Primary),
            replicas: vec![("10.0.0.1", 6380), ("::1", 6381)],
            own_failover: Some(OwnFailover::None),
            ..InfoReport::default()
        };
        assert_eq!(InfoReport::read(text.as_bytes()), expected);
    }

    #[test]
    fn what_a_replica_says() {
        let text = "role:slave\r\nmaster_host:primary.local\r\nmaster_port:6379\r\n\
                    master_link_status:down\r\nmaster_link_down_since_seconds:12\r\n\
                    slave_priority:100\r\nslave_repl_offset:4711\r\nreplica_announced:0\r\n\
                    master_failover_state:waiting-for-sync\r\n";
        let expected = InfoReport {
            role: Some(Role::Replica),
            primary_host: Some("primary.local"),
            primary_port: Some(6379),
            is_link_up: Some(false),
            link_down: Some(12_000),
            priority: Some(100),
            offset: Some(4711),
            is_announced: Some(false),
            own_failover: Some(OwnFailover::Running),
            ..InfoReport::default()
        };
        assert_eq!(InfoReport::read(text.as_bytes()), expected);
    }

    #[test]
    fn what_is_malformed_is_not_there() {
        for text in [
            "run_id:short",
            "role:sentinel",
            "slave0:ip=a b,port=1",
            "slave0:ip=a,port=0",
            "slave0:ip=a,port=65536",
            "slave0:",
            "slavex:ip=a,port=1",
            "slave_repl_offset:-1",
            "master_port:x",
            "master_host:a,b",
            "slave_priority:99999999999999999999",
            "\u{fffd}",
        ] {
            assert_eq!(InfoReport::read(text.as_bytes()), InfoReport::default(), "{text}");
        }
        assert_eq!(InfoReport::read(b"slave0:10.0.0.1,6380,online").replicas, [("10.0.0.1", 6380)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in any::<Vec<u8>>()) {
            InfoReport::read(&bytes);
        }

        #[test]
        fn any_lines_are_read(lines in prop::collection::vec(
            "(run_id|role|slave[0-9]{0,3}|master_port|slave_repl_offset):[ -~\u{e9}]{0,60}", 0..40
        )) {
            let text = lines.join("\r\n");
            let report = InfoReport::read(text.as_bytes());
            prop_assert!(report.replicas.len() <= lines.len());
        }
    }

    #[test]
    fn too_many_replicas_are_cut() {
        let lines: String = (0..5000).map(|n| format!("slave{n}:ip=10.0.0.1,port=1\n")).collect();
        assert_eq!(InfoReport::read(lines.as_bytes()).replicas.len(), REPLICAS_MAX);
    }
}
