//! Requests to memcached, in both of its protocols. Invariant: a packet's header holds the true
//! lengths of what follows it.

use super::template::{Fields, Segment, Template, append_all, len_of_all};
use super::values::ValueSource;
use crate::options::{Load, Protocol};

/// The codes of binary commands.
const GET: u8 = 0x00;
const SET: u8 = 0x01;

/// Flags and expiry, which a SET has.
const EXTRAS_LENGTH: usize = 8;

/// A packet with gaps.
#[derive(Debug)]
pub(super) struct Packet {
    opcode: u8,
    key: Vec<Segment>,
    value: Vec<Segment>,
    has_expiry: bool,
}

/// A request to store a value.
pub(super) fn set(protocol: Protocol, load: &Load, values: &ValueSource) -> Template {
    let (key, data) = (key(load), values.segment());
    let has_expiry = load.values.expiry.is_some();
    if protocol == Protocol::MemcacheBinary {
        return Template::packet(Packet { opcode: SET, key, value: vec![data], has_expiry });
    }
    let expiry = if has_expiry { Segment::Number(0) } else { literal("0") };
    let length = match &data {
        Segment::Literal(bytes) => literal(&bytes.len().to_string()),
        _ => Segment::DataLength,
    };
    let rest = [literal(" 0 "), expiry, literal(" "), length, literal("\r\n"), data];
    let segments = [literal("set ")].into_iter().chain(key).chain(rest);
    Template::line(segments.chain([literal("\r\n")]).collect())
}

/// A request to read one.
pub(super) fn get(protocol: Protocol, load: &Load) -> Template {
    let key = key(load);
    if protocol == Protocol::MemcacheBinary {
        return Template::packet(Packet { opcode: GET, key, value: vec![], has_expiry: false });
    }
    let segments = [literal("get ")].into_iter().chain(key).chain([literal("\r\n")]);
    Template::line(segments.collect())
}

fn key(load: &Load) -> Vec<Segment> {
    vec![Segment::Literal(load.keys.prefix.clone()), Segment::Key]
}

fn literal(text: &str) -> Segment {
    Segment::Literal(text.as_bytes().to_vec())
}

impl Packet {
    /// Whether a value is in it that differs from request to request.
    pub(super) fn has_data(&self) -> bool {
        self.value.contains(&Segment::Data)
    }

    /// Whether the first number is in it.
    pub(super) fn has_expiry(&self) -> bool {
        self.has_expiry
    }

    /// Appends the packet.
    pub(super) fn append(&self, fields: &Fields, values: &ValueSource, out: &mut Vec<u8>) {
        let (key, value) = (len_of_all(&self.key, fields), len_of_all(&self.value, fields));
        let extras = if self.opcode == SET { EXTRAS_LENGTH } else { 0 };
        out.extend_from_slice(&packet_header(self.opcode, extras, key, value));
        if extras > 0 {
            let expiry = u32::try_from(fields.numbers[0]).expect("options end at u32::MAX");
            out.extend_from_slice(&[0; 4]);
            out.extend_from_slice(&expiry.to_be_bytes());
        }
        append_all(&self.key, fields, values, out);
        append_all(&self.value, fields, values, out);
    }
}

/// The header of a request with so many bytes of extras, of key and of value behind it.
pub(crate) fn packet_header(opcode: u8, extras: usize, key: usize, value: usize) -> [u8; 24] {
    let mut header = [0; 24];
    let body = (extras + key + value) as u32;
    (header[0], header[1], header[4]) = (0x80, opcode, extras as u8);
    header[2..4].copy_from_slice(&(key as u16).to_be_bytes());
    header[8..12].copy_from_slice(&body.to_be_bytes());
    header
}
