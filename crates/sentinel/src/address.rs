//! Where an instance is: a host, the IP behind it if that is known, and a port.
//!
//! Invariants: a host is printable, without blanks or commas, and at most 255 bytes long; a host
//! that is an IP is its own answer and is never asked about.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::Millis;

/// Where an instance is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// The host as it was written: an IP or a name.
    pub(crate) host: String,
    /// `None` while the name is not resolved.
    pub(crate) ip: Option<IpAddr>,
    pub(crate) port: u16,
}

impl Address {
    /// Whether both are the same place: the ports are equal, and the IPs or the names.
    pub(crate) fn is_same(&self, other: &Address) -> bool {
        self.port == other.port && self.is_at(&other.host, other.ip)
    }

    /// Whether the host is this one, by name or by IP.
    pub(crate) fn is_at(&self, host: &str, ip: Option<IpAddr>) -> bool {
        (ip.is_some() && self.ip == ip) || self.host.eq_ignore_ascii_case(host)
    }

    /// The socket to connect to, once the host is resolved.
    pub(crate) fn socket(&self) -> Option<SocketAddr> {
        Some(SocketAddr::new(self.ip?, self.port))
    }

    /// Whether the host is a name that may come to mean another IP.
    pub(crate) fn is_named(&self) -> bool {
        self.host.parse::<IpAddr>().is_err()
    }
}

/// Why an address cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AddressFault {
    /// The host is not an IP, and names are not resolved or mean nothing.
    Host,
    /// The answer is still to come.
    Asked,
}

/// The names that were asked about, and the answers.
#[derive(Debug, Default)]
pub(crate) struct Hosts {
    /// Whether names are accepted at all.
    pub(crate) resolve: bool,
    /// Whether instances are shown by name rather than by IP.
    pub(crate) announce: bool,
    answers: BTreeMap<String, HostAnswer>,
    /// Names that the driver is to ask about.
    questions: Vec<String>,
}

#[derive(Debug)]
struct HostAnswer {
    ip: Option<IpAddr>,
    asked_at: Millis,
    is_asked: bool,
}

/// A name is asked about at most once in this time.
const QUESTION_PERIOD: Millis = 1000;
/// A question without an answer is asked again after this time.
const QUESTION_TIMEOUT: Millis = 30_000;
/// So many names are remembered; the one that was asked about first makes room.
const NAMES_MAX: usize = 4096;

impl Hosts {
    /// The address of a host and a port, its IP included if it is known. A name that is not is
    /// asked about.
    pub(crate) fn address(
        &mut self,
        host: &str,
        port: u16,
        now: Millis,
    ) -> Result<Address, AddressFault> {
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(Address { host: ip.to_string(), ip: Some(ip), port });
        }
        if !self.resolve || !is_host(host) {
            return Err(AddressFault::Host);
        }
        let ip = self.ip(host, now);
        Ok(Address { host: host.to_owned(), ip, port })
    }

    /// As `address`, for what must not be used before it is resolved.
    pub(crate) fn resolved(
        &mut self,
        host: &str,
        port: u16,
        now: Millis,
    ) -> Result<Address, AddressFault> {
        let address = self.address(host, port, now)?;
        match (address.ip, self.answers.get(host)) {
            (Some(_), _) => Ok(address),
            (None, Some(answer)) if answer.is_asked => Err(AddressFault::Asked),
            (None, _) => Err(AddressFault::Host),
        }
    }

    /// The IP of a host as far as it is known, without a question.
    pub(crate) fn known(&self, host: &str) -> Option<IpAddr> {
        host.parse().ok().or_else(|| self.answers.get(host)?.ip)
    }

    /// Asks about a name again, whose answer may have changed.
    pub(crate) fn ask(&mut self, host: &str, now: Millis) {
        if !self.resolve {
            return;
        }
        if self.answers.len() >= NAMES_MAX && !self.answers.contains_key(host) {
            let answered = self.answers.iter().filter(|(_, answer)| !answer.is_asked);
            let oldest = answered.min_by_key(|(_, answer)| answer.asked_at);
            let Some(oldest) = oldest.map(|(name, _)| name.clone()) else { return };
            self.answers.remove(&oldest);
        }
        let answer = self.answers.entry(host.to_owned()).or_insert(HostAnswer {
            ip: None,
            asked_at: now - QUESTION_PERIOD,
            is_asked: false,
        });
        let wait = if answer.is_asked { QUESTION_TIMEOUT } else { QUESTION_PERIOD };
        if now - answer.asked_at >= wait {
            answer.asked_at = now;
            answer.is_asked = true;
            self.questions.push(host.to_owned());
        }
    }

    /// Takes an answer. One that says nothing leaves the last IP.
    pub(crate) fn answer(&mut self, host: &str, ip: Option<IpAddr>) {
        if let Some(answer) = self.answers.get_mut(host) {
            answer.is_asked = false;
            answer.ip = ip.or(answer.ip);
        }
    }

    /// The names to ask about.
    pub(crate) fn take_questions(&mut self) -> Vec<String> {
        std::mem::take(&mut self.questions)
    }

    /// The host as replies, events and other instances are told it.
    pub(crate) fn shown(&self, address: &Address) -> String {
        match address.ip {
            Some(ip) if !self.announce => ip.to_string(),
            _ => address.host.clone(),
        }
    }

    fn ip(&mut self, host: &str, now: Millis) -> Option<IpAddr> {
        let known = self.known(host);
        if known.is_none() {
            self.ask(host, now);
        }
        known
    }
}

/// Whether a text may be a host: what is not would break the lines and the lists it stands in.
pub(crate) fn is_host(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b",\"'\\@".contains(&byte);
    !text.is_empty() && text.len() <= 255 && text.bytes().all(is_plain)
}

/// `host:port`, or `[host]:port` where the host has colons.
pub(crate) fn host_and_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::{AddressFault, Hosts, NAMES_MAX, host_and_port, is_host};

    #[test]
    fn names_made_up_by_others_keep_no_other_from_being_resolved() {
        let mut hosts = Hosts { resolve: true, ..Hosts::default() };
        for number in 0..NAMES_MAX as i64 + 100 {
            let name = format!("made-up-{number}");
            hosts.ask(&name, 5000 + number);
            hosts.answer(&name, None);
            assert!(hosts.answers.len() <= NAMES_MAX);
        }
        hosts.ask("localhost", 20_000);
        assert!(hosts.answers.contains_key("localhost"));
    }

    #[test]
    fn an_ip_needs_no_answer() {
        let mut hosts = Hosts::default();
        let address = hosts.resolved("::0:1", 6379, 0).unwrap();
        assert_eq!((address.host.as_str(), address.port), ("::1", 6379));
        assert!(!address.is_named());
        assert_eq!(hosts.address("1.2.3", 1, 0), Err(AddressFault::Host));
        assert_eq!(hosts.address("name", 1, 0), Err(AddressFault::Host));
        assert!(hosts.take_questions().is_empty());
    }

    #[test]
    fn a_name_is_asked_about_and_then_known() {
        let mut hosts = Hosts { resolve: true, ..Hosts::default() };
        assert_eq!(hosts.resolved("one", 1, 0), Err(AddressFault::Asked));
        assert_eq!(hosts.resolved("one", 1, 10), Err(AddressFault::Asked));
        assert_eq!(hosts.take_questions(), ["one"]);
        hosts.answer("one", None);
        assert_eq!(hosts.resolved("one", 1, 20), Err(AddressFault::Host));
        assert!(hosts.take_questions().is_empty(), "it was asked just now");
        assert_eq!(hosts.resolved("one", 1, 1000), Err(AddressFault::Asked));
        hosts.answer("one", Some([10, 0, 0, 1].into()));
        let address = hosts.resolved("one", 1, 1000).unwrap();
        assert_eq!(hosts.shown(&address), "10.0.0.1");
        hosts.announce = true;
        assert_eq!(hosts.shown(&address), "one");
        hosts.answer("one", None);
        assert!(hosts.known("one").is_some(), "no answer takes nothing away");
        assert!(address.is_same(&hosts.address("10.0.0.1", 1, 0).unwrap()));
        assert!(!address.is_same(&hosts.address("10.0.0.1", 2, 0).unwrap()));
    }

    #[test]
    fn hosts_and_ports() {
        for (text, good) in [("a", true), ("a-b.c", true), ("", false), ("a b", false)] {
            assert_eq!(is_host(text), good, "{text}");
        }
        assert!(!is_host("a,b") && !is_host("a\nb") && !is_host(&"a".repeat(256)));
        assert_eq!(host_and_port("10.0.0.1", 1), "10.0.0.1:1");
        assert_eq!(host_and_port("::1", 1), "[::1]:1");
    }
}
