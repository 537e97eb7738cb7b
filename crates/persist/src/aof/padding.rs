//! Padding: annotations at the end of a journal that say nothing and are written over.
//!
//! ```text
//!  #PAD........................................................\r\n
//!  #PAD.......................................................|\r\n     the last line
//! ```
//!
//! What is written over something else is synced without the file system's own journal, which
//! what makes a file longer needs. Other servers pass over annotations, and may write behind them.
//!
//! Filler is like padding, but behind it anything may stand: what is written past the memory of the
//! system is filled up with it to whole blocks.
//!
//! Invariants: padding ends where [`PADDING_LINE`] divides the offset, and no line goes beyond such
//! a place, so no block of the disk ends within one; nothing is ever written over the last line.
//! So what follows other padding than that is a batch whose beginning a power loss took, and what
//! follows the last line is not.

/// The length of a line; the first one is as long as it takes to end in its place.
pub const PADDING_LINE: u64 = 64;

const WORD: &[u8] = b"#PAD";
const LAST: u8 = b'|';

/// The shortest line: its word and its end.
const LINE_MIN: u64 = WORD.len() as u64 + 2;

/// The annotation that is put in where no line fits before its place.
const SPACER: &[u8] = b"#.....\r\n";

/// The length of most lines of [`filler`]. Redis takes 1,023 bytes.
const FILLER_LINE: usize = 512;

/// What is to be put in before an offset, so that padding can begin behind it.
#[must_use]
pub fn spacer(from: u64) -> &'static [u8] {
    let fits = line_end(from) - from >= LINE_MIN;
    if fits { b"" } else { SPACER }
}

/// Where the line of padding ends that begins at an offset.
#[must_use]
pub(super) fn line_end(from: u64) -> u64 {
    (from + 1).next_multiple_of(PADDING_LINE)
}

/// Adds the line that stands at an offset, between what was written there and the padding behind.
pub(super) fn pad_line(from: u64, to: &mut Vec<u8>) {
    let len = usize::try_from(line_end(from) - from).expect("a line is short");
    to.extend_from_slice(WORD);
    to.resize(to.len() + len - WORD.len() - 2, b'.');
    to.extend_from_slice(b"\r\n");
}

/// The lines from an offset where there is room for one, or where one ends, to a place that `block`
/// divides.
#[must_use]
pub fn pad_lines(from: u64, block: usize) -> Vec<u8> {
    let (mut bytes, end) = (Vec::with_capacity(block), from.next_multiple_of(block as u64));
    let mut at = from;
    while at < end {
        pad_line(at, &mut bytes);
        at = line_end(at);
    }
    bytes
}

/// At least so many bytes of padding from where there is room for a line, with the last line.
#[must_use]
pub fn padding(from: u64, count: usize) -> Vec<u8> {
    let (mut bytes, mut end) = (Vec::with_capacity(count + PADDING_LINE as usize), from);
    // So the last line is as long as others, which has room for its sign.
    let least = from + (count as u64).max(PADDING_LINE + 1);
    while end < least {
        pad_line(end, &mut bytes);
        end = line_end(end);
    }
    let sign = bytes.len() - 3;
    bytes[sign] = LAST;
    bytes
}

/// How many bytes of [`filler`] it takes from an offset to a place that `block` divides.
#[must_use]
pub fn filler_length(from: u64, block: usize) -> usize {
    let gap = from.next_multiple_of(block as u64) - from;
    let gap = usize::try_from(gap).expect("it is less than a block");
    // There is no annotation of one byte or two.
    if matches!(gap, 1 | 2) { gap + block } else { gap }
}

/// So many bytes that say nothing, in lines as other servers take them; not one or two.
#[must_use]
pub fn filler(count: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(count);
    while bytes.len() < count {
        let left = count - bytes.len();
        // Else what is left then could be no line.
        let length = if left > FILLER_LINE + 2 { FILLER_LINE } else { left };
        bytes.push(b'#');
        bytes.resize(bytes.len() + length - 3, b'.');
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// What a line of padding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Padding {
    /// More follows.
    Line,
    /// Nothing of it follows.
    Last,
}

impl Padding {
    /// What a line is that is without its end, if it is padding.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let rest = line.strip_prefix(WORD)?;
        let (dots, kind) = match rest.strip_suffix(&[LAST]) {
            Some(dots) => (dots, Self::Last),
            None => (rest, Self::Line),
        };
        dots.iter().all(|byte| *byte == b'.').then_some(kind)
    }
}
