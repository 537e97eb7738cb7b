//! When ids change, row by row, and what a PSYNC is answered.

use proptest::prelude::{any, prop};
use proptest::{prop_assert_eq, proptest};

use super::FullReason::{BeyondSecond, NoBacklog, OtherId, TooNew, TooOld, Wanted};
use super::{History, KeptRange, PsyncVerdict, SavedHistory};
use crate::ids::ReplicationId;

fn id(number: u8) -> ReplicationId {
    ReplicationId::from_random([number; 20])
}

fn saved(number: u8, offset: u64) -> SavedHistory {
    SavedHistory { id: id(number), offset, database: 3, second: None }
}

/// Id, second id and second offset, as INFO shows them.
fn shown(history: &History) -> (ReplicationId, ReplicationId, i64) {
    (history.id(), history.second_id(), history.second_offset())
}

#[test]
fn ids_change_with_each_event_as_the_table_says() {
    let none = ReplicationId::NONE;
    assert_eq!(shown(&History::new(id(1))), (id(1), none, -1));
    assert_eq!(shown(&History::of_primary(saved(1, 100), id(2))), (id(2), id(1), 101));
    assert_eq!(shown(&History::of_replica(saved(1, 100))), (id(1), none, -1));

    let mut history = History::of_primary(saved(1, 100), id(2));
    let line = history.begin_backlog(id(3));
    assert_eq!(shown(&history), (id(3), none, -1));
    assert_eq!(
        line,
        format!("Replication backlog created, my new replication IDs are '{}' and '{none}'", id(3))
    );
    let line = history.promote(500, id(4));
    assert_eq!(shown(&history), (id(4), id(3), 501));
    assert_eq!(
        line,
        format!(
            "Setting secondary replication ID to {}, valid up to offset: 501. New replication ID \
             is {}",
            id(3),
            id(4)
        )
    );
    assert!(!history.shift_id(600, id(4)));
    assert_eq!(shown(&history), (id(4), id(3), 501));
    assert!(history.shift_id(600, id(5)));
    assert_eq!(shown(&history), (id(5), id(4), 601));
    history.adopt(id(6));
    assert_eq!(shown(&history), (id(6), none, -1));
    history.promote(700, id(7));
    history.end_backlog(id(8));
    assert_eq!(shown(&history), (id(8), none, -1));
}

#[test]
fn a_replica_goes_on_only_within_what_is_kept_and_shared() {
    let mut history = History::new(id(1));
    history.promote(500, id(2));
    let kept = Some(KeptRange { first: 400, end: 1000 });
    let (first, second) = (id(2).to_string(), id(1).to_string());
    let upper = first.to_uppercase();
    let partial = |from| PsyncVerdict::Partial { from };
    let full = PsyncVerdict::Full;
    for (asked, byte, kept, verdict) in [
        (&*first, 401, kept, partial(400)),
        (&upper, 401, kept, partial(400)),
        (&first, 1001, kept, partial(1000)),
        (&first, 1002, kept, full(TooNew)),
        (&first, i64::MAX, kept, full(TooNew)),
        (&first, 400, kept, full(TooOld)),
        (&first, 0, kept, full(TooOld)),
        (&first, -1, kept, full(TooOld)),
        (&first, i64::MIN, kept, full(TooOld)),
        (&first, 1, None, full(NoBacklog)),
        (&second, 501, kept, partial(500)),
        (&second, 502, kept, full(BeyondSecond)),
        (&second, 400, kept, full(TooOld)),
        (&ReplicationId::NONE.to_string(), 450, kept, full(OtherId)),
        (&id(9).to_string(), 450, kept, full(OtherId)),
        ("", 450, kept, full(OtherId)),
        ("?", -1, kept, full(Wanted)),
        ("?", 450, kept, full(Wanted)),
        ("?anything", 450, kept, full(Wanted)),
    ] {
        assert_eq!(history.psync_verdict(asked.as_bytes(), byte, kept), verdict, "{asked} {byte}");
    }
    let empty = Some(KeptRange { first: 7, end: 7 });
    assert_eq!(empty.map(|kept| (kept.first_byte(), kept.len())), Some((8, 0)));
    assert_eq!(history.psync_verdict(first.as_bytes(), 8, empty), partial(7));
    let restarted = History::of_primary(saved(1, 7), id(2));
    assert_eq!(restarted.psync_verdict(second.as_bytes(), 8, empty), partial(7));
    let zeros = ReplicationId::NONE.to_string();
    assert_eq!(History::new(id(1)).psync_verdict(zeros.as_bytes(), 8, empty), full(OtherId));
}

#[test]
fn answers_are_lines() {
    let history = History::new(id(1));
    let digits = id(1).to_string();
    let text = |line| String::from_utf8(line).unwrap();
    assert_eq!(text(history.continue_line(true)), format!("+CONTINUE {digits}\r\n"));
    assert_eq!(text(history.continue_line(false)), "+CONTINUE\r\n");
    assert_eq!(text(history.full_line(77)), format!("+FULLRESYNC {digits} 77\r\n"));
}

#[test]
fn what_is_saved_is_read_again_and_nothing_else_is() {
    let text = History::new(id(1)).saved(77, 3).to_string();
    assert_eq!(SavedHistory::parse(text.as_bytes()), Some(saved(1, 77)));
    let mut promoted = History::new(id(1));
    promoted.promote(70, id(2));
    let both = promoted.saved(77, 3);
    assert_eq!(SavedHistory::parse(both.to_string().as_bytes()), Some(both));
    assert_eq!(shown(&History::of_replica(both)), (id(2), id(1), 71));
    let digits = id(1).to_string();
    for wrong in [
        String::new(),
        digits.clone(),
        format!("{digits} 77"),
        format!("{digits} 77 3 "),
        format!("{digits} 77 3 3"),
        format!("{digits}  77 3"),
        format!("{digits} 77 -1"),
        format!("{digits} 77 2147483648"),
        format!("{digits} -1 3"),
        format!("{digits} +7 3"),
        format!("{digits} 9223372036854775807 3"),
        format!("{digits} 18446744073709551616 3"),
        format!("{digits} 77 3 {digits}"),
        format!("{digits} 77 3 {digits} -1"),
        format!("{} 77 3", ReplicationId::NONE),
        format!("{}g 77 3", &digits[1..]),
    ] {
        assert_eq!(SavedHistory::parse(wrong.as_bytes()), None, "{wrong:?}");
    }
}

proptest! {
    #[test]
    fn hostile_text_does_no_harm(text in prop::collection::vec(any::<u8>(), 0..100)) {
        if let Some(saved) = SavedHistory::parse(&text) {
            prop_assert_eq!(SavedHistory::parse(saved.to_string().as_bytes()), Some(saved));
        }
    }

    #[test]
    fn hostile_words_are_judged(id in any::<Vec<u8>>(), byte: i64, first: u32, len: u32) {
        let kept = KeptRange { first: first.into(), end: u64::from(first) + u64::from(len) };
        let ours = History::new(self::id(1));
        let verdict = ours.psync_verdict(ours.id().as_bytes(), byte, Some(kept));
        let may = byte > i64::from(first) && byte as u64 <= kept.end + 1;
        prop_assert_eq!(matches!(verdict, PsyncVerdict::Partial { .. }), may);
        prop_assert_eq!(ours.psync_verdict(&id, byte, None) == PsyncVerdict::Full(Wanted),
            id.first() == Some(&b'?'));
    }
}
