//! The binary protocol: packets of 24 bytes of header, extras, key and value.

use super::{Talk, start};

/// A packet to the server.
#[derive(Clone, Default)]
pub(crate) struct Packet {
    pub(crate) opcode: u8,
    pub(crate) extras: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) cas: u64,
}

/// A packet from the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) opcode: u8,
    pub(crate) status: u16,
    pub(crate) opaque: u32,
    pub(crate) cas: u64,
    pub(crate) extras: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
}

impl Packet {
    pub(crate) fn new(opcode: u8, key: &str) -> Self {
        Self { opcode, key: key.into(), ..Self::default() }
    }

    fn set(key: &str, value: &str, flags: u32) -> Self {
        let extras = [flags.to_be_bytes(), [0; 4]].concat();
        Self { extras, value: value.into(), ..Self::new(0x01, key) }
    }

    pub(crate) fn bytes(&self, opaque: u32) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.opcode];
        bytes.extend((self.key.len() as u16).to_be_bytes());
        bytes.extend([self.extras.len() as u8, 0, 0, 0]);
        bytes.extend((body as u32).to_be_bytes());
        bytes.extend(opaque.to_be_bytes());
        bytes.extend(self.cas.to_be_bytes());
        [&bytes[..], &self.extras, &self.key, &self.value].concat()
    }
}

/// Reads an answer.
#[track_caller]
pub(crate) fn hear(talk: &mut Talk) -> Answer {
    let header = talk.read(24);
    assert_eq!((header.len(), header.first()), (24, Some(&0x81)), "{}", header.escape_ascii());
    let long = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("four bytes"));
    let short = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
    let mut body = talk.read(long(8) as usize);
    let value = body.split_off(usize::from(header[4]) + usize::from(short(2)));
    let key = body.split_off(header[4].into());
    let cas = u64::from(long(16)) << 32 | u64::from(long(20));
    let (opcode, status, opaque) = (header[1], short(6), long(12));
    Answer { opcode, status, opaque, cas, extras: body, key, value }
}

/// Sends a packet and reads its answer.
#[track_caller]
pub(crate) fn ask(talk: &mut Talk, packet: &Packet) -> Answer {
    talk.send(packet.bytes(0xfeed));
    let answer = hear(talk);
    assert_eq!((answer.opcode, answer.opaque), (packet.opcode, 0xfeed));
    answer
}

const OK: u16 = 0;
const NOT_FOUND: u16 = 1;
const EXISTS: u16 = 2;

#[test]
fn items_numbers_and_cas() {
    let server = start(&[]);
    let talk = &mut Talk::to(&server);
    assert_eq!(ask(talk, &Packet::new(0x00, "k")).status, NOT_FOUND);
    let stored = ask(talk, &Packet::set("k", "hello", 0xdead_beef));
    assert_eq!(stored.status, OK);
    assert_ne!(stored.cas, 0);
    let read = ask(talk, &Packet::new(0x0c, "k"));
    assert_eq!((read.status, read.cas), (OK, stored.cas));
    assert_eq!((&read.extras[..], &read.key[..]), (&[0xde, 0xad, 0xbe, 0xef][..], &b"k"[..]));
    assert_eq!(read.value, b"hello");
    let late = Packet { cas: stored.cas + 1, ..Packet::set("k", "x", 0) };
    assert_eq!(ask(talk, &late).status, EXISTS);
    let good = Packet { cas: stored.cas, ..Packet::set("k", "y", 0) };
    assert_eq!(ask(talk, &good).status, OK);
    assert_eq!(ask(talk, &Packet { opcode: 0x02, ..Packet::set("k", "z", 0) }).status, EXISTS);
    let absent = Packet { opcode: 0x03, ..Packet::set("none", "z", 0) };
    assert_eq!(ask(talk, &absent).status, NOT_FOUND);
    let delta = |by: u64, initial: u64, expiry: u32| {
        [&by.to_be_bytes()[..], &initial.to_be_bytes(), &expiry.to_be_bytes()].concat()
    };
    let absent = Packet { extras: delta(1, 5, u32::MAX), ..Packet::new(0x05, "n") };
    assert_eq!(ask(talk, &absent).status, NOT_FOUND);
    let increment = Packet { extras: delta(3, 5, 0), ..Packet::new(0x05, "n") };
    assert_eq!(ask(talk, &increment).value, 5_u64.to_be_bytes());
    assert_eq!(ask(talk, &increment).value, 8_u64.to_be_bytes());
    assert_eq!(ask(talk, &Packet { opcode: 0x06, ..increment }).value, 5_u64.to_be_bytes());
    let append = Packet { value: b"!".to_vec(), ..Packet::new(0x0e, "k") };
    assert_eq!(ask(talk, &append).status, OK);
    assert_eq!(ask(talk, &Packet::new(0x00, "k")).value, b"y!");
    assert_eq!(ask(talk, &Packet::new(0x04, "k")).status, OK);
    assert_eq!(ask(talk, &Packet::new(0x04, "k")).status, NOT_FOUND);
}

#[test]
fn quiet_packets_are_answered_when_there_is_something_to_say() {
    let server = start(&[]);
    let talk = &mut Talk::to(&server);
    let quiet_set = Packet { opcode: 0x11, ..Packet::set("a", "1", 0) };
    let packets = [quiet_set, Packet::new(0x09, "none"), Packet::new(0x09, "a")];
    for packet in packets {
        talk.send(packet.bytes(7));
    }
    talk.send(Packet::new(0x0a, "").bytes(8));
    let hit = hear(talk);
    assert_eq!((hit.opcode, hit.opaque, &hit.value[..]), (0x09, 7, &b"1"[..]));
    let noop = hear(talk);
    assert_eq!((noop.opcode, noop.opaque, noop.status), (0x0a, 8, OK));
}

#[test]
fn reports_deadlines_and_flushing() {
    let server = start(&[]);
    let talk = &mut Talk::to(&server);
    assert_eq!(ask(talk, &Packet::new(0x0b, "")).value, b"1.6.18");
    assert_eq!(ask(talk, &Packet::set("k", "v", 0)).status, OK);
    let touch = Packet { extras: 100_u32.to_be_bytes().to_vec(), ..Packet::new(0x1c, "k") };
    assert_eq!(ask(talk, &touch).status, OK);
    let read = ask(talk, &Packet { opcode: 0x1d, ..touch });
    assert_eq!((read.status, &read.value[..]), (OK, &b"v"[..]));
    talk.send(Packet::new(0x10, "").bytes(1));
    let mut names = Vec::new();
    loop {
        let figure = hear(talk);
        if figure.key.is_empty() {
            break;
        }
        names.push(String::from_utf8(figure.key).expect("names are text"));
    }
    assert!(names.iter().any(|name| name == "curr_items"), "{names:?}");
    assert_eq!(ask(talk, &Packet::new(0x08, "")).status, OK);
    assert_eq!(ask(talk, &Packet::new(0x00, "k")).status, NOT_FOUND);
    // What has no meaning is answered, and the connection goes on.
    assert_eq!(ask(talk, &Packet::new(0x3c, "")).status, 0x81);
    assert_eq!(ask(talk, &Packet::new(0x0a, "")).status, OK);
}
