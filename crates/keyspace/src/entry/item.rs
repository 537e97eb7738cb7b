//! What memcached's clients keep about a string beside its value: 32 bits of their own, and a
//! version to compare.
//!
//! Neither costs anything where it is not used: a string has room for notes only if they say
//! something, and for a version only once somebody has asked for it.
//!
//! ```text
//! room    bytes   flags                  marks    version
//! None    0       0                      -        -
//! Brief   2       14 bits                2 bits   -
//! Told    8       6 bits                 2 bits   56 bits, beyond what the server itself tells
//! Full    13      32 bits                a byte   64 bits
//! ```
//!
//! Invariant: a version that was told belongs to this value alone; whatever changes the value takes
//! the version away, and the next question is answered with a new one.

use base::time::UnixMillis;
use structs::object::Kind;

use super::header::Header;
use super::{EntryBox, EntryRef, NewText};

/// What memcached's clients note about an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemNotes {
    /// The client's own 32 bits.
    pub flags: u32,
    /// Whether the value is out of date and only there until a new one comes.
    pub is_stale: bool,
    /// Whether some client was told to make the new one.
    pub is_won: bool,
}

/// What there is room for in an entry, by number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ItemRoom {
    /// Nothing.
    None,
    /// Flags of 14 bits.
    Brief,
    /// Flags of 6 bits and a version of 56.
    Told,
    /// Everything.
    Full,
}

/// The word of [`ItemRoom::Brief`], and the upper byte of that of [`ItemRoom::Told`], end with the
/// marks.
const STALE: u8 = 1 << 6;
const WON: u8 = 1 << 7;
const FLAGS_OF_BYTE: u8 = STALE - 1;
const VERSION_BITS: u32 = 56;

impl ItemNotes {
    /// Those that say nothing but the client's flags.
    #[must_use]
    pub fn of_flags(flags: u32) -> Self {
        Self { flags, ..Self::default() }
    }

    fn marks(self) -> u8 {
        (if self.is_stale { STALE } else { 0 }) | if self.is_won { WON } else { 0 }
    }

    fn new(flags: u32, marks: u8) -> Self {
        Self { flags, is_stale: marks & STALE != 0, is_won: marks & WON != 0 }
    }
}

impl ItemRoom {
    /// Every room, by number.
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Brief, Self::Told, Self::Full];

    #[inline]
    pub(super) const fn len(self) -> usize {
        [0, 2, 8, 13][self as usize]
    }

    /// The least that holds both.
    fn of(notes: ItemNotes, version: u64) -> Self {
        let all = Self::ALL.into_iter();
        let mut holding = all.filter(|room| room.holds(notes, version));
        holding.next().expect("there is one for everything")
    }

    fn holds(self, notes: ItemNotes, version: u64) -> bool {
        match self {
            Self::None => notes == ItemNotes::default() && version == 0,
            Self::Brief => notes.flags >> 14 == 0 && version == 0,
            Self::Told => notes.flags >> 6 == 0 && version >> VERSION_BITS == 0,
            Self::Full => true,
        }
    }

    fn read(self, bytes: &[u8]) -> (ItemNotes, u64) {
        match *bytes {
            [low, high] => {
                let flags = u16::from_le_bytes([low, high & FLAGS_OF_BYTE]);
                (ItemNotes::new(u32::from(flags), high), 0)
            }
            [a, b, c, d, e, f, g, high] => {
                let version = u64::from_le_bytes([a, b, c, d, e, f, g, 0]);
                (ItemNotes::new(u32::from(high & FLAGS_OF_BYTE), high), version)
            }
            [a, b, c, d, marks, ref version @ ..] => {
                let version = version.try_into().expect("the longest room ends with eight bytes");
                let notes = ItemNotes::new(u32::from_le_bytes([a, b, c, d]), marks);
                (notes, u64::from_le_bytes(version))
            }
            _ => (ItemNotes::default(), 0),
        }
    }

    /// Writes what there is room for.
    fn write(self, bytes: &mut [u8], notes: ItemNotes, version: u64) {
        let marks = notes.marks();
        let flags = notes.flags.to_le_bytes();
        match self {
            Self::None => {}
            Self::Brief => bytes.copy_from_slice(&[flags[0], flags[1] | marks]),
            Self::Told => {
                bytes.copy_from_slice(&version.to_le_bytes());
                bytes[7] = flags[0] | marks;
            }
            Self::Full => {
                bytes[..4].copy_from_slice(&flags);
                bytes[4] = marks;
                bytes[5..].copy_from_slice(&version.to_le_bytes());
            }
        }
    }
}

impl EntryRef<'_> {
    /// What memcached's clients noted.
    #[must_use]
    #[inline]
    pub fn notes(self) -> ItemNotes {
        self.item().0
    }

    /// Whether a new value with these notes can go into the block as far as they are concerned.
    #[inline]
    pub(crate) fn has_room_for(self, notes: ItemNotes) -> bool {
        self.header().item_room().holds(notes, 0)
    }

    /// The version, if one was told since the value last changed.
    #[must_use]
    #[inline]
    pub fn version(self) -> Option<u64> {
        Some(self.item().1).filter(|version| *version != 0)
    }

    /// Notes and version, which is 0 if none was told.
    #[inline]
    fn item(self) -> (ItemNotes, u64) {
        let room = self.header().item_room();
        if room == ItemRoom::None {
            return (ItemNotes::default(), 0);
        }
        // SAFETY: the block lives for the lifetime of the borrow; the bytes are read at once.
        room.read(unsafe { self.block.item() })
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

    /// Notes something in place of what was noted; `false`, and nothing done, if there is no room.
    pub(crate) fn set_notes(self, notes: ItemNotes) -> bool {
        self.set_item(notes, self.item().1)
    }

    /// Sets the version, where 0 is that of a value nobody was told one of; `false`, and nothing
    /// done, if there is no room.
    #[inline]
    pub(crate) fn set_version(self, version: u64) -> bool {
        if self.header().item_room() == ItemRoom::None {
            return version == 0;
        }
        self.set_item(self.item().0, version)
    }

    #[inline]
    fn set_item(self, notes: ItemNotes, version: u64) -> bool {
        let room = self.header().item_room();
        let is_held = room.holds(notes, version);
        if is_held && room != ItemRoom::None {
            // SAFETY: a change of an entry has its table for itself.
            room.write(unsafe { self.block.item_mut() }, notes, version);
        }
        is_held
    }

    /// Takes over notes and version into a block that has room for them.
    pub(super) fn take_item(self, other: EntryRef<'_>) {
        let (notes, version) = other.item();
        let is_held = self.set_item(notes, version);
        debug_assert!(is_held, "a copy has the room that the entry had, or more");
    }

    /// The same entry with these notes, in a block with room for them.
    pub(crate) fn with_notes(self, notes: ItemNotes) -> EntryBox {
        self.with_item(notes, self.item().1)
    }

    /// The same entry with this version, in a block with room for it.
    pub(crate) fn with_version(self, version: u64) -> EntryBox {
        self.with_item(self.item().0, version)
    }

    fn with_item(self, notes: ItemNotes, version: u64) -> EntryBox {
        let header = Header::new(self.kind(), self.encoding()).as_item(self.header());
        let header = header.with_item_room(ItemRoom::of(notes, version));
        let copy = self.copied(header, self.key(), self.deadline());
        copy.borrow().set_item(notes, version);
        copy
    }
}

impl EntryBox {
    /// A new string entry with notes.
    #[must_use]
    pub fn item(
        key: &[u8],
        value: NewText<'_>,
        deadline: Option<UnixMillis>,
        notes: ItemNotes,
    ) -> Self {
        let header = Header::new(Kind::String, value.encoding());
        let header = header.with_item_room(ItemRoom::of(notes, 0));
        let entry = Self::text_with(header, key, value, deadline);
        entry.borrow().set_notes(notes);
        entry
    }

    /// The same string with notes, which it had none of.
    #[must_use]
    pub fn with_notes(self, notes: ItemNotes) -> Self {
        if notes == ItemNotes::default() || self.borrow().kind() != Kind::String {
            return self;
        }
        self.borrow().with_notes(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::{EntryBox, ItemNotes, ItemRoom, NewText};

    const NOTES: ItemNotes = ItemNotes { flags: u32::MAX, is_stale: true, is_won: false };

    #[test]
    fn notes_and_versions_stay_with_copies_of_every_form() {
        for size in [1, 300, 5000, 100_000] {
            let value = vec![b'v'; size];
            let text = || NewText::from_client(&value);
            for deadline in [None, Some(99)] {
                let entry = EntryBox::item(b"key", text(), deadline, NOTES);
                assert_eq!(entry.borrow().version(), None);
                assert!(entry.borrow().set_version(7), "with such flags there is room for all");
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
    fn every_room_keeps_what_it_holds_and_the_least_is_taken() {
        let flags = [0, 1, 63, 64, (1 << 14) - 1, 1 << 14, u32::MAX];
        let versions = [0, 1, (1 << 56) - 1, 1 << 56, u64::MAX];
        for (flags, marks, version) in flags.into_iter().flat_map(|flags| {
            (0..4).flat_map(move |marks| versions.map(move |version| (flags, marks, version)))
        }) {
            let notes = ItemNotes { flags, is_stale: marks & 1 != 0, is_won: marks & 2 != 0 };
            let least = ItemRoom::of(notes, version);
            for room in ItemRoom::ALL.into_iter().filter(|room| room.holds(notes, version)) {
                assert!(room.len() >= least.len());
                let mut bytes = vec![0xa5; room.len()];
                room.write(&mut bytes, notes, version);
                assert_eq!(room.read(&bytes), (notes, version), "{room:?}");
            }
        }
        let len = |flags, version| ItemRoom::of(ItemNotes::of_flags(flags), version).len();
        assert_eq!([len(0, 0), len(1, 0), len(512, 0), len(1 << 14, 0)], [0, 2, 2, 13]);
        assert_eq!([len(0, 9), len(63, 9), len(64, 9), len(0, 1 << 56)], [8, 8, 13, 13]);
    }

    #[test]
    fn a_room_that_becomes_too_small_makes_way_for_another() {
        let entry = EntryBox::item(b"k", NewText::from_client(b"v"), None, ItemNotes::of_flags(5));
        assert!(entry.borrow().set_notes(ItemNotes::of_flags(6)));
        assert!(!entry.borrow().set_notes(NOTES));
        let versioned = entry.borrow().with_version(7);
        assert!(
            !versioned.borrow().set_notes(ItemNotes::of_flags(64)),
            "the version takes the room"
        );
        let full = versioned.borrow().with_notes(ItemNotes::of_flags(64));
        assert_eq!((full.borrow().notes().flags, full.borrow().version()), (64, Some(7)));
        assert!(full.borrow().set_version(u64::MAX) && full.borrow().set_notes(NOTES));
        assert_eq!((full.borrow().notes(), full.borrow().version()), (NOTES, Some(u64::MAX)));
        assert!(
            versioned.borrow().set_version(0)
                && versioned.borrow().has_room_for(ItemNotes::of_flags(63))
        );
        assert!(!versioned.borrow().has_room_for(ItemNotes::of_flags(64)));
    }

    #[test]
    fn a_plain_string_is_as_small_as_ever() {
        let value = NewText::from_client(b"value");
        let (plain, item) = (
            EntryBox::text(b"key", value.clone(), None),
            EntryBox::item(b"key", value, None, ItemNotes::default()),
        );
        assert_eq!(plain.borrow().memory(), item.borrow().memory());
        assert_eq!(item.borrow().notes(), ItemNotes::default());
        assert!(item.borrow().set_notes(ItemNotes::default()), "nothing takes no room");
        assert!(!item.borrow().set_notes(ItemNotes::of_flags(1)));
        assert_eq!(item.with_notes(ItemNotes::of_flags(1)).borrow().notes().flags, 1);
    }

    #[test]
    fn whatever_changes_the_value_takes_the_version_away() {
        let versioned = |value: &[u8]| {
            let entry = EntryBox::text(b"k", NewText::from_client(value), None);
            assert!(!entry.borrow().set_version(9), "there is no room yet");
            let entry = entry.borrow().with_version(9);
            assert_eq!(entry.borrow().version(), Some(9));
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
