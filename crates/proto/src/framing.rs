//! The commands by which a log or a stream is read, whatever else its commands are: what says where
//! a transaction begins and ends, and to which database commands belong.
//!
//! Invariant: these are words of what servers write to each other and to themselves, which no
//! operator renames; crates that know no declaration of a command read them here.

use crate::args::{Args, encode_command};

/// What a command does to those around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// A transaction begins.
    Multi,
    /// A transaction ends, and counts.
    Exec,
    /// A transaction ends, and nothing of it counts.
    Discard,
    /// What follows belongs to another database.
    Select,
}

impl Framing {
    /// What the command of this name does, whatever arguments it has.
    #[inline]
    #[must_use]
    pub fn named(name: &[u8]) -> Option<Self> {
        let (found, word) = match name.len() {
            4 => (Self::Exec, "EXEC"),
            5 => (Self::Multi, "MULTI"),
            6 => (Self::Select, "SELECT"),
            7 => (Self::Discard, "DISCARD"),
            _ => return None,
        };
        name.eq_ignore_ascii_case(word.as_bytes()).then_some(found)
    }

    /// What a command does that has as many arguments as it takes.
    #[inline]
    #[must_use]
    pub fn of(args: Args<'_>) -> Option<Self> {
        let found = Self::named(args.get(0)?)?;
        let arguments = if found == Self::Select { 2 } else { 1 };
        (args.len() == arguments).then_some(found)
    }
}

/// Appends the command that turns to a database.
pub fn encode_select(database: usize, out: &mut Vec<u8>) {
    let number = database.to_string();
    encode_command([b"SELECT".as_slice(), number.as_bytes()].into_iter(), out);
}

#[cfg(test)]
mod tests {
    use super::{Framing, encode_select};
    use crate::args::OwnedArgs;

    #[test]
    fn only_the_four_words_frame_what_is_around_them() {
        let multi = Some(Framing::Multi);
        for (line, named, whole) in [
            ("MULTI", multi, multi),
            ("multi", multi, multi),
            ("Multi x", multi, None),
            ("exec", Some(Framing::Exec), Some(Framing::Exec)),
            ("EXEC now", Some(Framing::Exec), None),
            ("DisCard", Some(Framing::Discard), Some(Framing::Discard)),
            ("SELECT 3", Some(Framing::Select), Some(Framing::Select)),
            ("select", Some(Framing::Select), None),
            ("select 1 2", Some(Framing::Select), None),
            ("set a", None, None),
            ("multj", None, None),
            ("multiple", None, None),
        ] {
            let owned: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
            let args = owned.as_args();
            assert_eq!((Framing::named(&args[0]), Framing::of(args)), (named, whole), "{line}");
        }
    }

    #[test]
    fn a_database_is_told_as_clients_turn_to_it() {
        let mut out = b"x".to_vec();
        encode_select(12, &mut out);
        assert_eq!(out, b"x*2\r\n$6\r\nSELECT\r\n$2\r\n12\r\n");
    }
}
