//! Bytes of files and of messages: numbers are big-endian, lengths are bounded.
//!
//! Invariant: what is read takes memory only for bytes that are there, and each value has one form:
//! what was read is written as the same bytes.

use std::fmt;
use std::net::IpAddr;

use cluster::{NodeId, Slot, SlotSet};

/// The bytes of an id.
const ID_LEN: usize = 40;

/// What is wrong with bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WireError {
    /// The bytes end before they should.
    Cut,
    /// Something follows the end.
    Surplus,
    /// A field of this name has a value that nobody writes.
    Value(&'static str),
}

impl fmt::Display for WireError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WireError::Cut => formatter.write_str("the bytes end too early"),
            WireError::Surplus => formatter.write_str("bytes follow the end"),
            WireError::Value(field) => write!(formatter, "no {field} has such a value"),
        }
    }
}

impl std::error::Error for WireError {}

/// Fields that are read one after the other.
#[derive(Debug)]
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The fields in `bytes`.
    pub fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    /// Makes sure that nothing follows.
    pub fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Surplus) }
    }

    /// So many bytes.
    pub fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(WireError::Cut)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        Ok(self.bytes(N)?.try_into().expect("so many bytes were taken"))
    }

    /// A number of one byte.
    pub fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.array::<1>()?[0])
    }

    /// A number of two bytes.
    pub fn u16(&mut self) -> Result<u16, WireError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// A number of eight bytes.
    pub fn u64(&mut self) -> Result<u64, WireError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Yes or no.
    pub fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Value("flag")),
        }
    }

    /// What may be missing.
    pub fn option<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, WireError>,
    ) -> Result<Option<T>, WireError> {
        Ok(if self.flag()? { Some(read(self)?) } else { None })
    }

    /// An id.
    pub fn id(&mut self) -> Result<NodeId, WireError> {
        NodeId::parse(self.bytes(ID_LEN)?).ok_or(WireError::Value("id"))
    }

    /// Ids in rising order.
    pub fn ids<T: FromIterator<NodeId>>(&mut self) -> Result<T, WireError> {
        let mut last = None;
        (0..self.u16()?)
            .map(|_| {
                let id = self.id()?;
                if last.replace(id).is_some_and(|last| last >= id) {
                    return Err(WireError::Value("list of ids"));
                }
                Ok(id)
            })
            .collect()
    }

    /// The address of a machine.
    pub fn ip(&mut self) -> Result<IpAddr, WireError> {
        match self.u8()? {
            4 => Ok(IpAddr::from(self.array::<4>()?)),
            6 => Ok(IpAddr::from(self.array::<16>()?)),
            _ => Err(WireError::Value("address")),
        }
    }

    /// Slots.
    pub fn slots(&mut self) -> Result<SlotSet, WireError> {
        const WRONG: WireError = WireError::Value("range of slots");
        let mut slots = SlotSet::empty();
        let mut begin = 0;
        for _ in 0..self.u16()? {
            let (first, last) = (self.u16()?, self.u16()?);
            if first < begin || last < first || Slot::new(last).is_none() {
                return Err(WRONG);
            }
            for slot in (first..=last).filter_map(Slot::new) {
                slots.insert(slot);
            }
            // Between two ranges there is a gap, or they were one.
            begin = last + 2;
        }
        Ok(slots)
    }
}

/// Writes what may be missing.
pub fn put_option<T>(out: &mut Vec<u8>, value: Option<&T>, put: impl FnOnce(&mut Vec<u8>, &T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Writes an id.
pub fn put_id(out: &mut Vec<u8>, id: NodeId) {
    out.extend_from_slice(id.as_str().as_bytes());
}

/// Writes ids that come in rising order; 65,535 at most.
pub fn put_ids(out: &mut Vec<u8>, ids: impl ExactSizeIterator<Item = NodeId>) {
    put_count(out, ids.len());
    for id in ids {
        put_id(out, id);
    }
}

/// Writes how many of something follow; 65,535 at most.
pub fn put_count(out: &mut Vec<u8>, count: usize) {
    let count = u16::try_from(count).expect("a cluster has fewer nodes than that");
    out.extend_from_slice(&count.to_be_bytes());
}

/// Writes a number of eight bytes.
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_be_bytes());
}

/// Writes the address of a machine.
pub fn put_ip(out: &mut Vec<u8>, ip: IpAddr) {
    match ip {
        IpAddr::V4(ip) => {
            out.push(4);
            out.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            out.push(6);
            out.extend_from_slice(&ip.octets());
        }
    }
}

/// Writes slots.
pub fn put_slots(out: &mut Vec<u8>, slots: &SlotSet) {
    let ranges = slots.ranges();
    put_count(out, ranges.len());
    for (first, last) in ranges {
        out.extend_from_slice(&first.get().to_be_bytes());
        out.extend_from_slice(&last.get().to_be_bytes());
    }
}
