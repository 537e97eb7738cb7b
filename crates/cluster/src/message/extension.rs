//! Extensions of pings: what Redis 7 to 8 and Valkey 8 and 9 tell of themselves beside the header.
//!
//! Type 4 is the internal secret in Redis 8 and the IPv4 address for clients in Valkey: the form of
//! the data says which. Invariant: text that is taken from here stands unquoted in `nodes.conf`.

use std::str::FromStr;

use super::{MessageType, PacketError};
use crate::client_address::ClientAddress;
use crate::id::{ID_LEN, NodeId, ShardId};

const HOSTNAME: u16 = 0;
const HUMAN_NAME: u16 = 1;
const FORGOTTEN: u16 = 2;
const SHARD: u16 = 3;
const SECRET_OR_IPV4: u16 = 4;
const CLIENT_IPV6: u16 = 5;
const CLIENT_PORT: u16 = 6;
const CLIENT_TLS_PORT: u16 = 7;
const AVAILABILITY_ZONE: u16 = 8;

/// The length of an extension's own header.
const HEAD_LEN: usize = 8;
/// Names are shorter than this.
const NAME_MAX: usize = 256;
/// So many forgotten nodes are told in one packet.
const FORGOTTEN_MAX: usize = 1024;

/// What a node tells of itself in extensions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Extensions {
    /// The host name that it announces.
    pub hostname: Option<String>,
    /// The name that it announces for people.
    pub human_name: Option<String>,
    /// Nodes that it has forgotten, and for how many seconds yet.
    pub forgotten: Vec<(NodeId, u64)>,
    /// Its shard.
    pub shard: Option<ShardId>,
    /// The secret of Redis 8.
    pub secret: Option<[u8; ID_LEN]>,
    /// Where clients are to come, in Valkey.
    pub client: ClientAddress,
    /// The availability zone, in Valkey.
    pub availability_zone: Option<String>,
    /// Types that are not known here, as far as they were read.
    pub unknown: Vec<u16>,
}

impl Extensions {
    /// Reads `count` extensions of `bytes`, the last part of a packet of `total` bytes.
    pub(super) fn read(
        kind: MessageType,
        total: u64,
        count: u16,
        bytes: &[u8],
    ) -> Result<Extensions, PacketError> {
        let mut extensions = Extensions::default();
        let mut rest = bytes;
        for _ in 0..count {
            let past_end = PacketError::ExtensionPastEnd { kind, total };
            let (head, _) = rest.split_first_chunk::<HEAD_LEN>().ok_or(past_end)?;
            let [a, b, c, d, type_high, type_low, ..] = *head;
            let length = u32::from_be_bytes([a, b, c, d]);
            if length % 8 != 0 || (length as usize) < HEAD_LEN {
                return Err(PacketError::Padding { kind, length });
            }
            let (extension, after) = rest.split_at_checked(length as usize).ok_or(past_end)?;
            extensions.take(u16::from_be_bytes([type_high, type_low]), &extension[HEAD_LEN..]);
            rest = after;
        }
        if rest.is_empty() {
            return Ok(extensions);
        }
        Err(PacketError::Length { kind, found: total, expected: total - rest.len() as u64 })
    }

    /// Takes one extension; what is malformed counts as not sent.
    fn take(&mut self, number: u16, data: &[u8]) {
        match number {
            HOSTNAME => self.hostname = text(data).filter(|name| is_hostname(name)),
            HUMAN_NAME => self.human_name = text(data),
            FORGOTTEN => {
                let Some((id, rest)) = data.split_first_chunk::<ID_LEN>() else { return };
                let seconds = rest.first_chunk::<8>().copied();
                if let (Some(id), Some(seconds)) = (NodeId::parse(id), seconds)
                    && self.forgotten.len() < FORGOTTEN_MAX
                {
                    self.forgotten.push((id, u64::from_be_bytes(seconds)));
                }
            }
            SHARD => self.shard = data.get(..ID_LEN).and_then(NodeId::parse).map(ShardId),
            SECRET_OR_IPV4 => match <[u8; ID_LEN]>::try_from(data) {
                Ok(secret) if secret.iter().all(u8::is_ascii_hexdigit) => {
                    self.secret = Some(secret);
                }
                _ => self.client.ipv4 = parsed(data),
            },
            CLIENT_IPV6 => self.client.ipv6 = parsed(data),
            CLIENT_PORT => self.client.port = port(data),
            CLIENT_TLS_PORT => self.client.tls_port = port(data),
            AVAILABILITY_ZONE => self.availability_zone = text(data),
            unknown if self.unknown.len() < 8 => self.unknown.push(unknown),
            _ => {}
        }
    }

    /// Appends the extensions, in the order of real servers, and says how many they are.
    pub(super) fn write(&self, out: &mut Vec<u8>) -> u16 {
        let mut count = 0;
        let mut put = |number: u16, parts: &[&[u8]]| {
            let length: usize = parts.iter().map(|part| part.len()).sum();
            let padded = length.next_multiple_of(8);
            out.extend(((HEAD_LEN + padded) as u32).to_be_bytes());
            out.extend(number.to_be_bytes());
            out.extend([0, 0]);
            parts.iter().for_each(|part| out.extend(*part));
            out.resize(out.len() + padded - length, 0);
            count += 1;
        };
        let ClientAddress { ipv4, ipv6, port, tls_port } = &self.client;
        let (ipv4, ipv6) = (ipv4.map(|ip| ip.to_string()), ipv6.map(|ip| ip.to_string()));
        let texts = [
            (HOSTNAME, &self.hostname),
            (HUMAN_NAME, &self.human_name),
            (SECRET_OR_IPV4, &ipv4),
            (CLIENT_IPV6, &ipv6),
        ];
        for (number, text) in texts {
            if let Some(text) = text {
                put(number, &[text.as_bytes(), &[0]]);
            }
        }
        for (number, port) in [(CLIENT_PORT, port), (CLIENT_TLS_PORT, tls_port)] {
            if let Some(port) = port {
                put(number, &[&port.to_be_bytes()]);
            }
        }
        if let Some(zone) = &self.availability_zone {
            put(AVAILABILITY_ZONE, &[zone.as_bytes(), &[0]]);
        }
        for (id, seconds) in self.forgotten.iter().take(FORGOTTEN_MAX) {
            put(FORGOTTEN, &[id.as_bytes(), &seconds.to_be_bytes()]);
        }
        if let Some(shard) = self.shard {
            put(SHARD, &[shard.0.as_bytes()]);
        }
        if let Some(secret) = &self.secret {
            put(SECRET_OR_IPV4, &[secret]);
        }
        count
    }
}

/// The text up to the NUL that ends it, if it stands unquoted in a line of words.
fn text(data: &[u8]) -> Option<String> {
    let end = data.iter().position(|byte| *byte == 0)?;
    let text = std::str::from_utf8(&data[..end]).ok()?;
    is_word(text).then(|| text.to_owned())
}

/// Whether a text stands unquoted as a field of `nodes.conf`.
pub(crate) fn is_word(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !b",=\"'\\".contains(&byte);
    !text.is_empty() && text.len() < NAME_MAX && text.bytes().all(is_plain)
}

/// Whether a text is a host name.
pub(crate) fn is_hostname(text: &str) -> bool {
    let is_of_names = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    !text.is_empty() && text.len() < NAME_MAX && text.bytes().all(is_of_names)
}

fn parsed<T: FromStr>(data: &[u8]) -> Option<T> {
    text(data)?.parse().ok()
}

fn port(data: &[u8]) -> Option<u16> {
    data.first_chunk().map(|bytes| u16::from_be_bytes(*bytes)).filter(|port| *port != 0)
}
