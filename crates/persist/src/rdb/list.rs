//! Lists: nodes, each a listpack or one long element.
//!
//! ```text
//!  ListNodes      count | 1, element in a string | 2, listpack in a string | ..
//!  ListZiplists   count | ziplist in a string | ..
//!  List           count | element | ..
//! ```
//!
//! Invariant: there is at least one element; nodes without any are passed over, as Redis does.

use std::ops::Range;

use structs::list::{List, ListLimits, ListRef, Side};
use structs::listpack::{self, Element, Listpack};
use structs::members::Text;
use structs::packing::{Packed, Packing};

use super::length::{read_length, write_length};
use super::string::{read_string, write_bytes, write_member};
use super::ziplist::Ziplist;
use super::{Malformed, Reader, ValueType, Writer, packed};

/// A node that is one element.
const PLAIN: u64 = 1;

/// A node that is a listpack.
const PACKED: u64 = 2;

/// Bytes of a listpack that is written for a large list: what Redis makes by default.
const NODE_BYTES_MAX: usize = 8192;

/// How a list is written.
#[must_use]
pub fn value_type(_: ListRef<'_>) -> ValueType {
    ValueType::ListNodes
}

/// Appends a list.
pub fn write(out: &mut Writer, list: ListRef<'_>) {
    if let ListRef::Packed(packed) = list {
        write_length(out, 1);
        write_length(out, PACKED);
        write_bytes(out, packed.bytes);
        return;
    }
    write_length(out, nodes(list).count() as u64);
    for node in nodes(list) {
        let texts = list.range(node.indexes);
        if node.is_plain {
            write_length(out, PLAIN);
            texts.for_each(|text| write_member(out, text));
        } else {
            write_length(out, PACKED);
            write_bytes(out, &listpack_of(texts));
        }
        out.relieve();
    }
}

/// Elements that make a node.
struct Node {
    indexes: Range<u64>,
    is_plain: bool,
}

/// The nodes that a list is written in: what is too long for a listpack is one by itself.
fn nodes(list: ListRef<'_>) -> impl Iterator<Item = Node> {
    let lengths = list.iter().map(|text| listpack::string_entry_len(text.len()));
    let mut lengths = lengths.peekable();
    let mut start = 0;
    std::iter::from_fn(move || {
        let mut bytes = listpack::EMPTY_LEN + lengths.next()?;
        let mut end = start + 1;
        while let Some(more) = lengths.next_if(|more| bytes + more <= NODE_BYTES_MAX) {
            bytes += more;
            end += 1;
        }
        let indexes = std::mem::replace(&mut start, end)..end;
        Some(Node { indexes, is_plain: bytes > NODE_BYTES_MAX })
    })
}

fn listpack_of<'a>(texts: impl Iterator<Item = Text<'a>>) -> Vec<u8> {
    let (mut bytes, mut buffer) = (listpack::new(), Vec::new());
    for text in texts {
        let element = match text {
            Text::Integer(number) => Element::Integer(number),
            text => Element::Bytes(text.as_bytes(&mut buffer)),
        };
        listpack::push_back(&mut bytes, element);
    }
    bytes
}

/// Reads a list that was written in this way.
pub fn read(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    limits: &ListLimits,
) -> Result<List, Malformed> {
    let mut list = List::default();
    let count = if value_type == ValueType::ListZiplist { 1 } else { read_length(reader)? };
    for _ in 0..count {
        read_part(value_type, reader, &mut list, limits)?;
    }
    if list.borrow().is_empty() { Err(Malformed) } else { Ok(list) }
}

/// Reads what comes next of a list: a node or an element.
pub(super) fn read_part(
    value_type: ValueType,
    reader: &mut Reader<'_>,
    list: &mut List,
    limits: &ListLimits,
) -> Result<(), Malformed> {
    match value_type {
        ValueType::List => append(list, [read_string(reader)?.as_member()], limits),
        ValueType::ListZiplist | ValueType::ListZiplists => {
            let bytes = read_string(reader)?.into_bytes();
            let ziplist = Ziplist::validate(&bytes)?;
            append(list, ziplist.elements().map(Text::from), limits);
        }
        _ => read_node(reader, list, limits)?,
    }
    Ok(())
}

fn read_node(
    reader: &mut Reader<'_>,
    list: &mut List,
    limits: &ListLimits,
) -> Result<(), Malformed> {
    match read_length(reader)? {
        PLAIN => append(list, [read_string(reader)?.as_member()], limits),
        PACKED => {
            let bytes = packed::read_any_listpack(reader)?;
            if list.borrow().is_empty() {
                let packed = Packed { packing: Packing::Listpack, bytes: bytes.into_owned() };
                *list = List::Packed(packed);
                // Large from the start, if it is too long.
                list.expect(0, 0, limits);
            } else {
                append(list, Listpack::new(&bytes).iter().map(Text::from), limits);
            }
        }
        _ => return Err(Malformed),
    }
    Ok(())
}

fn append<'a, I>(list: &mut List, texts: I, limits: &ListLimits)
where
    I: IntoIterator<Item = Text<'a>>,
    I::IntoIter: Clone,
{
    let texts = texts.into_iter();
    let entries = texts.clone().map(|text| listpack::string_entry_len(text.len()));
    let (count, bytes) = entries.fold((0, 0), |(count, sum), len| (count + 1, sum + len));
    list.expect(count, bytes, limits);
    list.push(Side::Right, texts);
}
