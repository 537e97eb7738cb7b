//! Lists: nodes, each a listpack or one long element.
//!
//! ```text
//!  ListNodes      count | 1, element in a string | 2, listpack in a string | ..
//!  ListZiplists   count | ziplist in a string | ..
//!  List           count | element | ..
//! ```
//!
//! Invariant: there is at least one element; nodes without any are passed over, as Redis does.

use structs::list::{LargeList, List, ListLimits, ListRef, Side};
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
    let large = match list {
        ListRef::Large(large) => large,
        ListRef::Packed(packed) => {
            write_length(out, 1);
            write_length(out, PACKED);
            write_bytes(out, packed.bytes);
            return;
        }
    };
    let mut count = 0;
    for_each_node(large, |_| count += 1);
    write_length(out, count);
    for_each_node(large, |node| {
        match node {
            Node::Plain(text) => {
                write_length(out, PLAIN);
                write_member(out, text);
            }
            Node::Joined([listpack]) => {
                write_length(out, PACKED);
                write_bytes(out, listpack.bytes());
            }
            Node::Joined(listpacks) => {
                write_length(out, PACKED);
                write_bytes(out, &join(listpacks));
            }
            Node::Gathered(listpack) => {
                write_length(out, PACKED);
                write_bytes(out, listpack);
            }
        }
        out.flush_if_large();
    });
}

/// Appends a list element by element.
pub fn write_elements(out: &mut Writer, list: ListRef<'_>) {
    write_length(out, list.len());
    for element in list.range(0..list.len()) {
        write_member(out, element);
        out.flush_if_large();
    }
}

/// What is written as one node.
enum Node<'a> {
    /// The elements of these listpacks.
    Joined(&'a [Listpack<'a>]),
    /// Elements that lie in no listpack together, in one that was made of them.
    Gathered(&'a [u8]),
    /// One that is too long for a listpack.
    Plain(Text<'a>),
}

/// Goes over the nodes that a list is written in. Pages are listpacks already, and several small
/// ones are joined; where a page has long elements beside it, nodes are made of its elements.
fn for_each_node(list: &LargeList, mut each: impl FnMut(Node<'_>)) {
    let (mut joined, mut bytes) = (Vec::new(), listpack::EMPTY_LEN);
    for page in list.pages() {
        let listpack = page.as_listpack();
        let more = listpack.map_or(usize::MAX, |it| it.bytes().len() - listpack::EMPTY_LEN);
        if !joined.is_empty() && more > NODE_BYTES_MAX - bytes {
            each(Node::Joined(&joined));
            joined.clear();
            bytes = listpack::EMPTY_LEN;
        }
        match listpack {
            Some(listpack) => {
                joined.push(listpack);
                bytes += more;
            }
            None => gather(page.iter(), &mut each),
        }
    }
    if !joined.is_empty() {
        each(Node::Joined(&joined));
    }
}

/// Goes over the nodes of some elements: as many in each as fit.
fn gather<'a>(texts: impl Iterator<Item = Text<'a>>, each: &mut impl FnMut(Node<'_>)) {
    let (mut node, mut buffer) = (listpack::new(), Vec::new());
    for text in texts {
        let more = listpack::string_entry_len(text.len());
        if node.len() > listpack::EMPTY_LEN && node.len() + more > NODE_BYTES_MAX {
            each(Node::Gathered(&std::mem::replace(&mut node, listpack::new())));
        }
        if listpack::EMPTY_LEN + more > NODE_BYTES_MAX {
            each(Node::Plain(text));
            continue;
        }
        let element = match text {
            Text::Integer(number) => Element::Integer(number),
            text => Element::Bytes(text.as_bytes(&mut buffer)),
        };
        listpack::push_back(&mut node, element);
    }
    if node.len() > listpack::EMPTY_LEN {
        each(Node::Gathered(&node));
    }
}

fn join(listpacks: &[Listpack<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(NODE_BYTES_MAX);
    bytes.extend(listpack::new());
    for listpack in listpacks {
        let end = Listpack::new(&bytes).end_offset();
        let all = listpack.start_offset()..listpack.end_offset();
        listpack::insert_from(&mut bytes, end, *listpack, all);
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

#[cfg(test)]
mod tests {
    use structs::list::LargeList;
    use structs::members::Text;

    use super::{NODE_BYTES_MAX, Node, for_each_node, join};

    /// The nodes of a list, each by its kind, its bytes and its number of elements.
    fn nodes_of(texts: &[Vec<u8>]) -> Vec<(&'static str, usize, usize)> {
        let list = LargeList::from_texts(texts.iter().map(|text| Text::Bytes(text)));
        let mut nodes = Vec::new();
        let count = |bytes: &[u8]| structs::listpack::Listpack::new(bytes).iter().count();
        for_each_node(&list, |node| {
            nodes.push(match node {
                Node::Joined(listpacks) => {
                    let bytes = join(listpacks);
                    structs::listpack::validate(&bytes).expect("a listpack");
                    ("joined", bytes.len(), count(&bytes))
                }
                Node::Gathered(bytes) => {
                    structs::listpack::validate(bytes).expect("a listpack");
                    ("gathered", bytes.len(), count(bytes))
                }
                Node::Plain(text) => ("plain", text.len(), 1),
            });
        });
        nodes
    }

    #[test]
    fn a_node_holds_what_fits_and_none_is_empty() {
        let small = |count: usize| (0..count).map(|number| number.to_string().into_bytes());
        let mut texts: Vec<Vec<u8>> = small(5000).collect();
        texts.extend([vec![b'a'; 1025], vec![b'b'; 9000], vec![b'c'; 5000], vec![b'd'; 5000]]);
        texts.extend(small(5000));
        let nodes = nodes_of(&texts);
        assert_eq!(nodes.iter().map(|node| node.2).sum::<usize>(), texts.len());
        for (kind, bytes, elements) in &nodes {
            assert!(*elements > 0);
            assert_eq!(*kind == "plain", *bytes == 9000, "{kind} of {bytes} bytes");
            assert!(*kind == "plain" || *bytes <= NODE_BYTES_MAX, "{kind} of {bytes} bytes");
        }
        for kind in ["joined", "gathered", "plain"] {
            assert!(nodes.iter().any(|node| node.0 == kind), "{kind}: {nodes:?}");
        }
    }

    #[test]
    fn small_pages_are_joined() {
        let texts: Vec<Vec<u8>> =
            (0..20_000).map(|number: u32| number.to_string().into()).collect();
        let nodes = nodes_of(&texts);
        let bytes: usize = nodes.iter().map(|node| node.1).sum();
        assert!(nodes.len() <= bytes / (NODE_BYTES_MAX / 2) + 1, "{nodes:?}");
    }
}
