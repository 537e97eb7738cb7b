//! The manifest of a journal: which files it consists of, and in which order.
//!
//! ```text
//!  #CHECK:133:0123456789abcdef
//!  file appendonly.aof.2.base.rdb seq 2 type b
//!  file appendonly.aof.1.incr.aof seq 1 type h
//!  file appendonly.aof.2.incr.aof seq 2 type i
//! ```
//!
//! The check line is our own; other servers pass over it, and write none.
//!
//! Invariants: at most one base; increments rise; no name leaves the directory; a number is never
//! given twice.

use std::fmt;

use base::number::parse_i64;
use base::quote::{quote, split_arguments};

use super::check_line::CheckLine;

/// The longest name that a file can have.
const NAME_MAX: usize = 255;

/// The largest number of a file that is read: behind it as many more can be written and read.
const SEQUENCE_MAX: u64 = i64::MAX as u64 / 2;

/// The longest line: a name of which each byte is written as four, and what stands around it. What
/// other servers read ends at 1,022 bytes, which names of letters do not come near.
const LINE_MAX: usize = 2048;

/// A file of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AofFile {
    /// Its name in the journal's directory.
    pub name: Vec<u8>,
    /// Its number, counted from 1 for bases and increments each.
    pub sequence: u64,
}

/// How a base is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseForm {
    /// As a snapshot.
    Snapshot,
    /// As commands.
    Commands,
}

/// The files of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    base: Option<AofFile>,
    increments: Vec<AofFile>,
    history: Vec<AofFile>,
    /// The greatest numbers that were given.
    last_base: u64,
    last_increment: u64,
}

/// Why a manifest is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong there.
    pub why: &'static str,
}

impl fmt::Display for ManifestError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "line {} of the AOF manifest: {}", self.line, self.why)
    }
}

impl std::error::Error for ManifestError {}

impl Manifest {
    /// The name of the manifest of a journal.
    #[must_use]
    pub fn name(journal: &[u8]) -> Vec<u8> {
        [journal, b".manifest"].concat()
    }

    /// Reads a manifest.
    pub fn parse(text: &[u8]) -> Result<Self, ManifestError> {
        let mut manifest = Self::default();
        let mut is_empty = true;
        let (first, rest) = text.split_at(text.iter().position(|byte| *byte == b'\n').unwrap_or(0));
        if CheckLine::is_meant(first)
            && !CheckLine::parse(first)
                .is_some_and(|check| check.admits(rest.get(1..).unwrap_or_default()))
        {
            return Err(ManifestError { line: 1, why: "the lines that follow are others" });
        }
        let ends_in_line = text.last().is_none_or(|byte| *byte == b'\n');
        let lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
        for (index, line) in lines {
            let error = |why| ManifestError { line: index + 1, why };
            is_empty = false;
            if line.len() > LINE_MAX {
                return Err(error("it is too long"));
            }
            if line.first() == Some(&b'#') {
                continue;
            }
            manifest.add_line(line).map_err(error)?;
        }
        let line = text.split(|byte| *byte == b'\n').count();
        match (is_empty, ends_in_line) {
            (true, _) => Err(ManifestError { line: 1, why: "it is empty" }),
            (_, false) => Err(ManifestError { line, why: "it is cut off" }),
            _ => Ok(manifest),
        }
    }

    fn add_line(&mut self, line: &[u8]) -> Result<(), &'static str> {
        const INVALID: &str = "it is invalid";
        let words = split_arguments(line).ok_or(INVALID)?;
        let (pairs, rest) = words.as_chunks::<2>();
        if pairs.len() < 3 || !rest.is_empty() {
            return Err(INVALID);
        }
        let (mut name, mut sequence, mut kind) = (None, None, None);
        for [key, value] in pairs {
            match &*key.to_ascii_lowercase() {
                b"file" if value.contains(&b'/') => {
                    return Err("the file's name is a path");
                }
                b"file" if value.len() > NAME_MAX => {
                    return Err("the file's name is too long");
                }
                b"file" if !value.is_empty() => name = Some(value.clone()),
                b"seq" => sequence = parse_i64(value).and_then(|number| number.try_into().ok()),
                b"type" => kind = <&[u8; 1]>::try_from(&**value).ok().copied(),
                // Newer servers may know more.
                _ => {}
            }
        }
        let (name, sequence) = (name.ok_or(INVALID)?, sequence.ok_or(INVALID)?);
        let file = AofFile { name, sequence };
        if sequence == 0 {
            return Err(INVALID);
        }
        if sequence > SEQUENCE_MAX {
            return Err("the number leaves no room for those behind it");
        }
        match kind.ok_or(INVALID)? {
            [b'b'] if self.base.is_some() => return Err("there is a base already"),
            [b'b'] => {
                self.last_base = sequence;
                self.base = Some(file);
            }
            [b'i'] if sequence <= self.last_increment => return Err("the numbers do not rise"),
            [b'i'] => {
                self.last_increment = sequence;
                self.increments.push(file);
            }
            [b'h'] => self.history.push(file),
            _ => return Err("the type of the file is not known"),
        }
        Ok(())
    }

    /// The manifest's text.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut text = Vec::new();
        let kinds = [
            ('b', self.base.as_slice()),
            ('h', self.history.as_slice()),
            ('i', self.increments.as_slice()),
        ];
        for (kind, files) in kinds {
            for AofFile { name, sequence } in files {
                text.extend_from_slice(b"file ");
                text.extend_from_slice(&as_word(name));
                text.extend_from_slice(format!(" seq {sequence} type {kind}\n").as_bytes());
            }
        }
        [CheckLine::of(&text).line().as_bytes(), b"\n", &text].concat()
    }

    /// The base, if there is one.
    #[must_use]
    pub fn base(&self) -> Option<&AofFile> {
        self.base.as_ref()
    }

    /// The increments in their order.
    #[must_use]
    pub fn increments(&self) -> &[AofFile] {
        &self.increments
    }

    /// Files that nobody needs any more.
    #[must_use]
    pub fn history(&self) -> &[AofFile] {
        &self.history
    }

    /// The files to be loaded, in their order.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &AofFile> + use<'_> {
        let files: Vec<&AofFile> = self.base.iter().chain(&self.increments).collect();
        files.into_iter()
    }

    /// Whether a file of this name is one of the journal's that came before those to be loaded, and
    /// is not named any more.
    #[must_use]
    pub fn is_left(&self, journal: &[u8], name: &[u8]) -> bool {
        let mut named = self.files().chain(&self.history);
        let rest = name.strip_prefix(journal).and_then(|rest| rest.strip_prefix(b"."));
        let Some(rest) = rest.filter(|_| !named.any(|file| file.name == name)) else {
            return false;
        };
        let end = rest.iter().position(|byte| *byte == b'.').unwrap_or(rest.len());
        let (number, kind) = rest.split_at(end);
        let sequence = parse_i64(number).and_then(|number| u64::try_from(number).ok());
        let first = match kind {
            b".base.rdb" | b".base.aof" => self.base.as_ref(),
            b".incr.aof" => self.increments.first(),
            _ => None,
        };
        sequence.zip(first).is_some_and(|(sequence, first)| sequence < first.sequence)
    }

    /// Adds an increment, which is the last one.
    pub fn add_increment(&mut self, journal: &[u8]) -> &AofFile {
        self.last_increment += 1;
        let sequence = self.last_increment;
        let name = [journal, format!(".{sequence}.incr.aof").as_bytes()].concat();
        self.increments.push(AofFile { name, sequence });
        self.increments.last().expect("one was just added")
    }

    /// Takes the last increment back, which was never used; its number is free again.
    pub fn withdraw_increment(&mut self) -> Option<AofFile> {
        let file = self.increments.pop()?;
        self.last_increment = file.sequence - 1;
        Some(file)
    }

    /// Names the next base, without taking it up.
    #[must_use]
    pub fn next_base(&self, journal: &[u8], form: BaseForm) -> AofFile {
        let sequence = self.last_base + 1;
        let extension = match form {
            BaseForm::Snapshot => "rdb",
            BaseForm::Commands => "aof",
        };
        let name = [journal, format!(".{sequence}.base.{extension}").as_bytes()].concat();
        AofFile { name, sequence }
    }

    /// Takes up a base which holds all there was before the increment with this number; what it
    /// replaces is history.
    pub fn install_base(&mut self, base: AofFile, first_increment: u64) {
        self.last_base = base.sequence;
        self.history.extend(self.base.replace(base));
        let is_replaced = |file: &mut AofFile| file.sequence < first_increment;
        self.history.extend(self.increments.extract_if(.., is_replaced));
    }

    /// A manifest whose base is a journal of one file, as servers before Redis 7.0 keep it.
    #[must_use]
    pub fn of_single_file(journal: &[u8]) -> Self {
        let base = AofFile { name: journal.to_vec(), sequence: 1 };
        Self { base: Some(base), last_base: 1, ..Self::default() }
    }

    /// A manifest of a base and the increment behind it.
    #[must_use]
    pub fn of_pair(base: AofFile, increment: AofFile) -> Self {
        let (last_base, last_increment) = (base.sequence, increment.sequence);
        let (base, increments) = (Some(base), vec![increment]);
        Self { base, increments, history: Vec::new(), last_base, last_increment }
    }

    /// Forgets the files that nobody needs, to be called when they are removed.
    pub fn forget_history(&mut self) {
        self.history.clear();
    }
}

/// A name as one word of a line.
fn as_word(name: &[u8]) -> Vec<u8> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    if name.iter().all(is_plain) { name.to_vec() } else { quote(name).into_bytes() }
}

#[cfg(test)]
mod tests {
    use super::{AofFile, BaseForm, Manifest};

    const TEXT: &str = "file appendonly.aof.2.base.rdb seq 2 type b\n\
        file appendonly.aof.1.base.rdb seq 1 type h\n\
        file appendonly.aof.1.incr.aof seq 1 type h\n\
        file appendonly.aof.2.incr.aof seq 2 type i\n";

    fn names(manifest: &Manifest) -> Vec<String> {
        manifest.files().map(|file| String::from_utf8_lossy(&file.name).into_owned()).collect()
    }

    #[test]
    fn a_manifest_comes_back() {
        let manifest = Manifest::parse(TEXT.as_bytes()).unwrap();
        let text = String::from_utf8(manifest.encode()).unwrap();
        let (check, lines) = text.split_once('\n').unwrap();
        assert!(check.starts_with("#CHECK:176:"), "{check}");
        assert_eq!(lines, TEXT);
        assert_eq!(names(&manifest), ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof"]);
        assert_eq!(manifest.history().len(), 2);
        let longest = "\u{e9}".repeat(122);
        for name in ["with space", "with\"quote", "with\nline", "caf\u{e9}", &longest] {
            let mut manifest = Manifest::default();
            manifest.add_increment(name.as_bytes());
            let text = manifest.encode();
            assert_eq!(text.iter().filter(|byte| **byte == b'\n').count(), 2);
            assert_eq!(Manifest::parse(&text).unwrap(), manifest, "{name}");
        }
    }

    #[test]
    fn what_other_servers_write_is_read() {
        let text = "# a comment\nseq 3 FILE 'a b' type i startoffset 5\nfile c seq 7 type i\n";
        let manifest = Manifest::parse(text.as_bytes()).unwrap();
        let expected = [
            AofFile { name: b"a b".to_vec(), sequence: 3 },
            AofFile { name: b"c".into(), sequence: 7 },
        ];
        assert_eq!(manifest.increments(), expected);
        assert_eq!(manifest.base(), None);
    }

    #[test]
    fn what_is_left_are_files_of_the_journal_that_came_before_and_have_no_name_in_it() {
        let manifest = Manifest::parse(TEXT.as_bytes()).unwrap();
        let mut forgot = manifest.clone();
        forgot.forget_history();
        let is_left = |name: &str| forgot.is_left(b"appendonly.aof", name.as_bytes());
        for name in ["1.base.rdb", "1.base.aof", "1.incr.aof"] {
            assert!(is_left(&format!("appendonly.aof.{name}")), "{name}");
        }
        assert!(!manifest.is_left(b"appendonly.aof", b"appendonly.aof.1.incr.aof"));
        for name in [
            "appendonly.aof.2.base.rdb",
            "appendonly.aof.2.incr.aof",
            "appendonly.aof.3.incr.aof",
            "appendonly.aof.manifest",
            "appendonly.aof",
            "appendonly.aof.1.incr.aof.bak",
            "appendonly.aof.one.incr.aof",
            "other.aof.1.incr.aof",
            "temp-rewriteaof-bg-1.aof",
        ] {
            assert!(!is_left(name), "{name}");
        }
        assert!(!Manifest::default().is_left(b"appendonly.aof", b"appendonly.aof.1.incr.aof"));
    }

    #[test]
    fn a_new_base_makes_history_of_what_it_holds() {
        let mut manifest = Manifest::default();
        let base = manifest.next_base(b"a.aof", BaseForm::Snapshot);
        let first = manifest.add_increment(b"a.aof").sequence;
        manifest.install_base(base, first);
        assert_eq!(names(&manifest), ["a.aof.1.base.rdb", "a.aof.1.incr.aof"]);
        manifest.add_increment(b"a.aof");
        let first = manifest.add_increment(b"a.aof").sequence;
        let base = manifest.next_base(b"a.aof", BaseForm::Commands);
        manifest.install_base(base, first);
        assert_eq!(names(&manifest), ["a.aof.2.base.aof", "a.aof.3.incr.aof"]);
        assert_eq!(manifest.history().len(), 3);
        manifest.forget_history();
        let manifest = Manifest::parse(&manifest.encode()).unwrap();
        assert_eq!(manifest.next_base(b"", BaseForm::Snapshot).sequence, 3);
        assert_eq!(manifest.clone().add_increment(b"").sequence, 4);
    }

    #[test]
    fn a_number_that_was_not_used_is_free_again() {
        let mut manifest = Manifest::of_single_file(b"a.aof");
        assert_eq!(names(&manifest), ["a.aof"]);
        manifest.add_increment(b"a.aof");
        manifest.add_increment(b"a.aof");
        assert_eq!(manifest.withdraw_increment().unwrap().sequence, 2);
        assert_eq!(manifest.add_increment(b"a.aof").sequence, 2);
    }

    #[test]
    fn a_base_and_its_increment_make_a_manifest() {
        let all = Manifest::parse(TEXT.as_bytes()).unwrap();
        let pair = Manifest::of_pair(all.base().unwrap().clone(), all.increments()[0].clone());
        assert_eq!(names(&pair), names(&all));
        assert!(pair.history().is_empty());
        assert_eq!(Manifest::parse(&pair.encode()).unwrap(), pair);
    }

    #[test]
    fn what_is_no_manifest_is_refused() {
        let long = format!("file a seq 1 type b{}\n", " ".repeat(2100));
        let named = format!("file {} seq 1 type b\n", "a".repeat(256));
        for (text, line, why) in [
            ("", 1, "it is empty"),
            ("file a seq 1 type b\nfile b seq 2 type b\n", 2, "there is a base already"),
            ("file a seq 2 type i\nfile b seq 2 type i\n", 2, "the numbers do not rise"),
            ("file a seq 1 type x\n", 1, "the type of the file is not known"),
            ("file a/b seq 1 type b\n", 1, "the file's name is a path"),
            ("file a seq 0 type b\n", 1, "it is invalid"),
            ("file a seq -1 type b\n", 1, "it is invalid"),
            ("file a seq 1\n", 1, "it is invalid"),
            ("file a seq 1 type\n", 1, "it is invalid"),
            ("file a seq 1 type bb\n", 1, "it is invalid"),
            ("file \"a seq 1 type b\n", 1, "it is invalid"),
            (
                "file a seq 4611686018427387904 type i\n",
                1,
                "the number leaves no room for those behind it",
            ),
            ("\n", 1, "it is invalid"),
            ("file a seq 1 type b\nfile b seq 1 type i", 2, "it is cut off"),
            (&long, 1, "it is too long"),
            (&named, 1, "the file's name is too long"),
        ] {
            let error = Manifest::parse(text.as_bytes()).unwrap_err();
            assert_eq!((error.line, error.why), (line, why), "{text}");
        }
    }

    #[test]
    fn no_byte_can_change_and_none_be_missing() {
        let manifest = Manifest::parse(TEXT.as_bytes()).unwrap();
        let text = manifest.encode();
        let as_it_was = |bytes: &[u8]| Manifest::parse(bytes).is_ok_and(|read| read == manifest);
        for len in 0..text.len() {
            assert!(Manifest::parse(&text[..len]).is_err(), "cut off at {len}");
        }
        for (place, bit) in (0..text.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut flipped = text.clone();
            flipped[place] ^= 1 << bit;
            let is_refused = Manifest::parse(&flipped).is_err();
            assert!(is_refused || as_it_was(&flipped), "bit {bit} of byte {place}");
        }
        // Without a check line a cut is seen within lines only.
        for len in 1..TEXT.len() {
            let whole = TEXT.as_bytes()[len - 1] == b'\n';
            assert_eq!(Manifest::parse(&TEXT.as_bytes()[..len]).is_ok(), whole, "{len}");
        }
    }
}
