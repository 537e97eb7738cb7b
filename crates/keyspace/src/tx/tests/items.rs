//! What memcached's clients keep: notes and versions, and what changes them.

use super::{keyspace, on, undoable};
use crate::entry::{ItemNotes, NewText};
use crate::tx::{Lifetime, UndoPoint};

const FLAGGED: ItemNotes = ItemNotes { flags: 77, is_stale: false, is_won: false };

fn text(value: &[u8]) -> NewText<'_> {
    NewText::from_client(value)
}

#[test]
fn a_version_stays_until_the_value_changes() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    assert_eq!(tx.version(b"k").unwrap(), None, "what is not there has none");
    tx.put_text(b"k", text(b"one"), Lifetime::Forever).unwrap();
    let first = tx.version(b"k").unwrap().unwrap();
    assert_eq!(tx.version(b"k").unwrap(), Some(first));
    tx.set_deadline(b"k", Some(5_000_000)).unwrap();
    assert_eq!(tx.version(b"k").unwrap(), Some(first), "a deadline is no part of the value");
    let mut last = first;
    let mut expect_another = |tx: &mut super::Tx, after: &str| {
        let next = tx.version(b"k").unwrap().unwrap();
        assert_ne!(next, last, "{after}");
        last = next;
    };
    tx.put_text(b"k", text(b"two"), Lifetime::Keep).unwrap();
    expect_another(&mut tx, "a value of the same length");
    tx.put_text(b"k", text(b"two"), Lifetime::Keep).unwrap();
    expect_another(&mut tx, "the same value, stored again");
    tx.append_text(b"k", b"!").unwrap();
    expect_another(&mut tx, "a tail");
    tx.write_text(b"k", 0, b"T").unwrap();
    expect_another(&mut tx, "a part");
    tx.put_text(b"k", text(&[b'x'; 100_000]), Lifetime::Forever).unwrap();
    expect_another(&mut tx, "a long value");
    tx.write_text(b"k", 50_000, b"y").unwrap();
    expect_another(&mut tx, "a part of a long value");
    tx.set_version(b"k", 12).unwrap();
    assert_eq!(tx.version(b"k").unwrap(), Some(12));
}

#[test]
fn notes_stay_with_edits_and_go_with_another_value() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    let notes = |tx: &super::Tx| tx.peek(b"k").unwrap().unwrap().notes();
    tx.put_item(b"k", text(b"10"), Lifetime::Until(9_000_000), FLAGGED).unwrap();
    tx.update_text(b"k", |_| Ok(NewText::Integer(11))).unwrap();
    assert_eq!(notes(&tx), FLAGGED);
    tx.append_text(b"k", b" and more than fits the block it had").unwrap();
    assert_eq!(notes(&tx), FLAGGED);
    tx.set_deadline(b"k", None).unwrap();
    assert_eq!(notes(&tx), FLAGGED);
    tx.put_text(b"k", text(b"10"), Lifetime::Forever).unwrap();
    assert_eq!(notes(&tx), ItemNotes::default(), "a Redis client's value has none");
    assert!(tx.set_notes(b"k", ItemNotes { is_stale: true, ..FLAGGED }).unwrap());
    assert_eq!(notes(&tx), ItemNotes { is_stale: true, ..FLAGGED });
    assert!(!tx.set_notes(b"absent", FLAGGED).is_ok_and(|there| there));
}

#[test]
fn telling_a_version_or_noting_something_is_no_change() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    tx.put_text(b"k", text(b"v"), Lifetime::Forever).unwrap();
    tx.finish();
    drop(tx);
    let mut tx = on(keyspace, &[b"k"]);
    tx.version(b"k").unwrap();
    tx.set_notes(b"k", FLAGGED).unwrap();
    assert_eq!(tx.effects().changes(), 0);
}

#[test]
fn what_is_undone_has_its_notes_and_version_again() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    tx.put_item(b"k", text(b"v"), Lifetime::Forever, FLAGGED).unwrap();
    let version = tx.version(b"k").unwrap();
    drop(tx);
    let mut tx = super::begin(keyspace, &[b"k"], undoable());
    tx.put_text(b"k", text(b"w"), Lifetime::Forever).unwrap();
    tx.return_to(UndoPoint::default());
    assert_eq!(tx.version(b"k").unwrap(), version);
    assert_eq!(tx.peek(b"k").unwrap().unwrap().notes(), FLAGGED);
}

#[test]
fn memory_is_counted_with_the_room_that_is_added() {
    let keyspace = keyspace();
    let mut tx = on(keyspace, &[b"k"]);
    tx.put_text(b"k", text(b"v"), Lifetime::Forever).unwrap();
    let of_entry = |tx: &super::Tx| tx.peek(b"k").unwrap().unwrap().memory();
    let (all, entry) = (keyspace.memory(), of_entry(&tx));
    tx.version(b"k").unwrap();
    tx.set_notes(b"k", FLAGGED).unwrap();
    assert_eq!(of_entry(&tx), entry + 8, "thirteen bytes for both, where six were free");
    assert_eq!(keyspace.memory() - all, 8);
}
