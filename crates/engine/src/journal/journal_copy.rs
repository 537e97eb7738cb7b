//! A reader of the journal for tests: a copy of the stream.
//!
//! Invariant: the copy begins where the journal ended when its reader was attached.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use keyspace::Lsn;

use super::{DurabilityLevel, Journal, JournalReader, ReaderId};

/// A copy of the stream from an LSN on.
#[derive(Clone, Default)]
pub struct JournalCopy {
    begun: Lsn,
    bytes: Arc<Mutex<Vec<u8>>>,
    beside: Arc<AtomicU64>,
}

impl JournalReader for JournalCopy {
    fn record(&mut self, lsn: u64, bytes: &[u8], _: bool) -> bool {
        let mut copy = self.bytes.lock().expect("no critical section here panics");
        copy.extend_from_slice(bytes);
        // What is written beside a stream comes to nobody who passes it on.
        let beside = lsn.checked_sub(self.begun + copy.len() as u64);
        let beside = beside.expect("an LSN is not before its record");
        let before = self.beside.swap(beside, Ordering::Relaxed);
        assert!(before <= beside, "an LSN is the offset behind its record, and what is beside");
        false
    }
}

impl JournalCopy {
    /// A reader that begins where the journal ends now.
    pub fn attach(journal: &Journal, level: DurabilityLevel) -> (ReaderId, Self) {
        let (id, copy) = (journal.name_reader(), Self { begun: journal.end(), ..Self::default() });
        let begun = journal.attach(id, Box::new(copy.clone()), level);
        assert_eq!(begun, copy.begun);
        (id, copy)
    }

    /// What was copied.
    pub fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().expect("no critical section here panics").clone()
    }

    /// The same as text.
    pub fn text(&self) -> String {
        String::from_utf8(self.bytes()).expect("records of tests are text")
    }
}
