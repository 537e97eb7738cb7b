//! What memcached's clients keep about a string beside its value: 32 bits of their own, and a
//! version to compare.
//!
//! Neither costs anything where it is not used: a string has a word for notes only if they say
//! something, and a word for its version only once somebody has asked for it. Invariant: a version
//! that was told belongs to this value alone; whatever changes the value takes the version away,
//! and who asks next is told a new one.

use base::time::UnixMillis;
use structs::object::Kind;

use super::header::Header;
use super::{EntryBox, EntryRef, NewText};

/// What memcached's clients note about an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notes {
    /// The client's own 32 bits.
    pub flags: u32,
    /// Whether the value is out of date and only there until a new one comes.
    pub is_stale: bool,
    /// Whether some client was told to make the new one.
    pub is_won: bool,
}

const STALE: u64 = 1 << 32;
const WON: u64 = 1 << 33;

impl Notes {
    /// Those that say nothing but the client's flags.
    #[must_use]
    pub fn of_flags(flags: u32) -> Self {
        Self { flags, ..Self::default() }
    }

    fn to_word(self) -> u64 {
        u64::from(self.flags)
            | if self.is_stale { STALE } else { 0 }
            | if self.is_won { WON } else { 0 }
    }

    fn from_word(word: u64) -> Self {
        Self { flags: word as u32, is_stale: word & STALE != 0, is_won: word & WON != 0 }
    }
}

impl EntryRef<'_> {
    /// What memcached's clients noted.
    #[must_use]
    #[inline]
    pub fn notes(self) -> Notes {
        // SAFETY: the block lives for the lifetime of the borrow; words are read by value only.
        unsafe { self.block.notes().map_or(Notes::default(), |word| Notes::from_word(word.read())) }
    }

    /// Whether something can be noted in the block as it is.
    #[inline]
    pub(crate) fn has_notes_room(self) -> bool {
        self.header().has_notes()
    }

    /// The version, if one was told since the value last changed.
    #[must_use]
    #[inline]
    pub fn version(self) -> Option<u64> {
        // SAFETY: as in `notes`.
        unsafe { self.block.version().map(|word| word.read()).filter(|version| *version != 0) }
    }

    /// Whether a memcached client has read the value since it was stored.
    #[must_use]
    pub fn was_read(self) -> bool {
        self.header().was_read()
    }

    /// Says whether a memcached client has read the value; no reader of values depends on it.
    pub fn set_read(self, was_read: bool) {
        if self.was_read() != was_read {
            // SAFETY: as in `notes`; the header is atomic.
            unsafe { self.block.update_header(|header| header.with_read(was_read)) };
        }
    }

    /// Notes something in place of what was noted; `false` if there is no room and it would take
    /// some.
    pub(crate) fn set_notes(self, notes: Notes) -> bool {
        // SAFETY: as in `notes`; whoever changes an entry has its table for itself.
        unsafe {
            let word = self.block.notes();
            word.inspect(|word| word.write(notes.to_word()));
            word.is_some() || notes == Notes::default()
        }
    }

    /// Sets the version, where 0 is that of a value nobody was told one of; `false` if there is no
    /// room for one.
    pub(crate) fn set_version(self, version: u64) -> bool {
        // SAFETY: as in `set_notes`.
        unsafe { self.block.version().inspect(|word| word.write(version)).is_some() }
    }

    /// Takes over notes and version, as far as there is room for them.
    pub(super) fn take_item_words(self, other: EntryRef<'_>) {
        self.set_notes(other.notes());
        self.set_version(other.version().unwrap_or(0));
    }

    /// The same entry in a block with room for a version.
    pub(crate) fn with_version_room(self) -> EntryBox {
        let header = Header::new(self.kind(), self.encoding()).as_item(self.header());
        self.copied(header.with_version(), self.key(), self.deadline())
    }

    /// The same entry in a block with room for notes.
    pub(crate) fn with_notes_room(self) -> EntryBox {
        let header = Header::new(self.kind(), self.encoding()).as_item(self.header());
        self.copied(header.with_notes(), self.key(), self.deadline())
    }
}

impl EntryBox {
    /// A new string entry with notes.
    #[must_use]
    pub fn item(
        key: &[u8],
        value: NewText<'_>,
        deadline: Option<UnixMillis>,
        notes: Notes,
    ) -> Self {
        let header = Header::new(Kind::String, value.encoding());
        let has_notes = notes != Notes::default();
        let header = if has_notes { header.with_notes() } else { header };
        let entry = Self::text_with(header, key, value, deadline);
        entry.borrow().set_notes(notes);
        entry
    }

    /// The same string with notes, which it had none of.
    #[must_use]
    pub fn with_notes(self, notes: Notes) -> Self {
        if notes == Notes::default() || self.borrow().kind() != Kind::String {
            return self;
        }
        let noted = self.borrow().with_notes_room();
        noted.borrow().set_notes(notes);
        noted
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryBox, NewText, Notes};

    const NOTES: Notes = Notes { flags: u32::MAX, is_stale: true, is_won: false };

    #[test]
    fn notes_and_versions_stay_with_copies_of_every_form() {
        for size in [1, 300, 5000, 100_000] {
            let value = vec![b'v'; size];
            let text = || NewText::from_client(&value);
            for deadline in [None, Some(99)] {
                let entry = EntryBox::item(b"key", text(), deadline, NOTES);
                assert_eq!(entry.borrow().version(), None);
                assert!(!entry.borrow().set_version(7), "there is no room yet");
                let entry = entry.borrow().with_version_room();
                assert!(entry.borrow().set_version(7));
                entry.borrow().set_read(true);
                let copy = entry.borrow().pre_image().renamed(b"other").with_deadline(Some(5));
                let copy = copy.borrow();
                assert_eq!((copy.notes(), copy.version()), (NOTES, Some(7)));
                assert_eq!((copy.key(), copy.deadline()), (&b"other"[..], Some(5)));
                assert!(copy.was_read() && copy.text().unwrap().equals(&value));
            }
        }
    }

    #[test]
    fn a_plain_string_is_as_small_as_ever() {
        let value = NewText::from_client(b"value");
        let (plain, item) = (
            EntryBox::text(b"key", value.clone(), None),
            EntryBox::item(b"key", value, None, Notes::default()),
        );
        assert_eq!(plain.borrow().memory(), item.borrow().memory());
        assert_eq!(item.borrow().notes(), Notes::default());
        assert!(item.borrow().set_notes(Notes::default()), "nothing takes no room");
        assert!(!item.borrow().set_notes(Notes::of_flags(1)));
        assert_eq!(item.with_notes(Notes::of_flags(1)).borrow().notes().flags, 1);
    }

    #[test]
    fn whatever_changes_the_value_takes_the_version_away() {
        let versioned = |value: &[u8]| {
            let entry = EntryBox::text(b"k", NewText::from_client(value), None);
            let entry = entry.borrow().with_version_room();
            assert!(entry.borrow().set_version(9));
            entry
        };
        let entry = versioned(b"hello");
        // SAFETY: no borrow of the value is alive.
        assert!(unsafe { entry.borrow().overwrite_text(&NewText::from_client(b"HELLO")) });
        assert_eq!(entry.borrow().version(), None);
        let entry = versioned(b"hello");
        // SAFETY: as above.
        assert!(unsafe { entry.borrow().patch_text(1, b"E") });
        assert_eq!(entry.borrow().version(), None);
        let entry = versioned(&[b'x'; 100_000]);
        // SAFETY: as above.
        assert!(unsafe { entry.borrow().object_mut() }.is_some());
        assert_eq!(entry.borrow().version(), None);
    }
}
