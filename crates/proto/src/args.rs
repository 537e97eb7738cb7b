//! The arguments of one command: borrowed from the bytes they arrived in, or owned.
//!
//! Arguments are positions in one run of bytes, 32 bits each: a command stays below 4 GiB.

use std::ops::{Index, Range};
use std::sync::Arc;

use crate::reply::{header_len, is_header, push_header};

/// What ends every line.
pub(crate) const LINE_END: &[u8] = b"\r\n";

/// Where one argument lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// The span of a range, unless it lies beyond 4 GiB.
    #[inline]
    pub(crate) fn new(range: Range<usize>) -> Option<Span> {
        Some(Span { start: range.start.try_into().ok()?, end: range.end.try_into().ok()? })
    }

    #[inline]
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    #[inline]
    pub(crate) fn len(self) -> usize {
        (self.end - self.start) as usize
    }
}

/// Borrowed arguments, the command's name first.
#[derive(Clone, Copy, Default)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The caller vouches that the spans lie in the bytes.
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { bytes, spans }
    }

    /// The number of arguments.
    #[inline]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// One argument.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.range()])
    }

    /// The arguments in order.
    #[inline]
    pub fn iter(
        &self,
    ) -> impl ExactSizeIterator<Item = &'a [u8]> + DoubleEndedIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.range()])
    }

    /// All but the first `count` arguments; none if there are not so many.
    #[inline]
    pub fn skip(&self, count: usize) -> Args<'a> {
        Args { bytes: self.bytes, spans: self.spans.get(count..).unwrap_or_default() }
    }

    /// The arguments in a range of positions, as far as they exist.
    pub fn slice(&self, range: Range<usize>) -> Args<'a> {
        let end = range.end.min(self.spans.len());
        Args { bytes: self.bytes, spans: self.spans.get(range.start..end).unwrap_or_default() }
    }

    /// The bytes from the beginning of the first argument to the end of the last, with what stood
    /// between them.
    #[inline]
    pub fn extent(&self) -> usize {
        match self.spans {
            [] => 0,
            [first, .., last] => (last.end - first.start) as usize,
            [only] => only.range().len(),
        }
    }

    /// The addresses of that extent.
    pub fn addresses(&self) -> Range<usize> {
        let (Some(first), Some(last)) = (self.spans.first(), self.spans.last()) else {
            return 0..0;
        };
        let begin = self.bytes.as_ptr().addr();
        begin + first.start as usize..begin + last.end as usize
    }

    /// Where the arguments lie in a buffer that begins at this address, for
    /// [`OwnedArgs::within`].
    pub fn places(&self, begin: usize) -> ArgSpans {
        ArgSpans { skipped: self.bytes.as_ptr().addr() - begin, spans: self.spans.into() }
    }

    /// The length of all arguments together.
    pub fn total_bytes(&self) -> usize {
        self.spans.iter().map(|span| span.range().len()).sum()
    }

    /// Appends the command as a client would send it: an array of bulk strings.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_command(self.iter(), out);
    }

    /// What [`encode`](Self::encode) makes of them, if that is just what they arrived in, as it is
    /// with nearly all clients: then nothing needs to be made.
    pub fn encoded(&self) -> Option<&'a [u8]> {
        let first = self.spans.first()?.range();
        let head = header_len(self.len()) + header_len(first.len());
        let begin = first.start.checked_sub(head)?;
        let mut at = self.behind_header(begin, b'*', self.len())?;
        for span in self.spans {
            let range = span.range();
            let start = self.behind_header(at, b'$', range.len())?;
            at = range.end + LINE_END.len();
            if start != range.start || self.bytes.get(range.end..at)? != LINE_END {
                return None;
            }
        }
        self.bytes.get(begin..at)
    }

    /// The place behind this header, if it stands here.
    #[inline]
    fn behind_header(&self, at: usize, kind: u8, count: usize) -> Option<usize> {
        let end = at + header_len(count);
        is_header(self.bytes.get(at..end)?, kind, count).then_some(end)
    }
}

/// Panics when there is no such argument, as slices do: for what the arity has promised.
impl Index<usize> for Args<'_> {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        &self.bytes[self.spans[index].range()]
    }
}

impl std::fmt::Debug for Args<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.iter().map(base::quote::quote)).finish()
    }
}

/// Where arguments lie in a buffer, while nobody borrows it.
pub struct ArgSpans {
    /// Bytes before those that the spans count from.
    skipped: usize,
    spans: Box<[Span]>,
}

/// Arguments that own their bytes, in two allocations: for commands that wait, run on another
/// thread, or were made within.
#[derive(Clone, Default)]
pub struct OwnedArgs {
    bytes: Bytes,
    spans: Box<[Span]>,
}

#[derive(Clone)]
enum Bytes {
    Own(Box<[u8]>),
    /// A buffer without its first bytes.
    Within(Arc<Vec<u8>>, usize),
}

impl Default for Bytes {
    fn default() -> Bytes {
        Bytes::Own(Box::default())
    }
}

impl OwnedArgs {
    /// The arguments, borrowed.
    #[inline]
    pub fn as_args(&self) -> Args<'_> {
        let bytes = match &self.bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Within(buffer, skipped) => &buffer[*skipped..],
        };
        Args::new(bytes, &self.spans)
    }

    /// The buffer that they lie in, if it was not made for them.
    pub fn buffer(&self) -> Option<&Arc<Vec<u8>>> {
        match &self.bytes {
            Bytes::Own(_) => None,
            Bytes::Within(buffer, _) => Some(buffer),
        }
    }

    /// The bytes of memory held.
    pub fn memory(&self) -> usize {
        let bytes = match &self.bytes {
            Bytes::Own(bytes) => bytes.len(),
            Bytes::Within(buffer, _) => buffer.capacity(),
        };
        bytes + std::mem::size_of_val::<[Span]>(&self.spans)
    }

    /// Arguments at these ranges of bytes. `None` if one lies beyond 4 GiB.
    pub fn at(bytes: Vec<u8>, ranges: &[Range<usize>]) -> Option<OwnedArgs> {
        assert!(ranges.iter().all(|range| range.end <= bytes.len()), "they lie in the bytes");
        let spans: Option<_> = ranges.iter().map(|range| Span::new(range.clone())).collect();
        Some(OwnedArgs { bytes: Bytes::Own(bytes.into()), spans: spans? })
    }

    /// Arguments that lie at these places of a buffer, whatever stands between them: nothing is
    /// copied.
    ///
    /// # Panics
    /// If there is no such place in the buffer.
    pub fn within(buffer: Vec<u8>, places: ArgSpans) -> OwnedArgs {
        let ArgSpans { skipped, spans } = places;
        let ends = spans.iter().map(|span| skipped + span.range().end);
        assert!(ends.max().is_none_or(|end| end <= buffer.len()), "they lie in the buffer");
        OwnedArgs { bytes: Bytes::Within(Arc::new(buffer), skipped), spans }
    }
}

impl From<Args<'_>> for OwnedArgs {
    fn from(args: Args<'_>) -> OwnedArgs {
        let mut bytes = Vec::with_capacity(args.total_bytes());
        let spans = args.iter().map(|argument| {
            let start = bytes.len();
            bytes.extend_from_slice(argument);
            Span::new(start..bytes.len()).expect("commands stay below 4 GiB")
        });
        let spans = spans.collect();
        OwnedArgs { bytes: Bytes::Own(bytes.into()), spans }
    }
}

impl<'a> FromIterator<&'a [u8]> for OwnedArgs {
    fn from_iter<I: IntoIterator<Item = &'a [u8]>>(arguments: I) -> OwnedArgs {
        let arguments = arguments.into_iter();
        let mut bytes = Vec::new();
        let mut spans = Vec::with_capacity(arguments.size_hint().0);
        for argument in arguments {
            let start = bytes.len();
            bytes.extend_from_slice(argument);
            spans.push(Span::new(start..bytes.len()).expect("commands stay below 4 GiB"));
        }
        OwnedArgs { bytes: Bytes::Own(bytes.into()), spans: spans.into() }
    }
}

impl std::fmt::Debug for OwnedArgs {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_args().fmt(formatter)
    }
}

/// Arguments that are put together one by one, in memory that is used again.
#[derive(Clone, Default)]
pub struct ArgsBuffer {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl ArgsBuffer {
    /// A buffer with memory for so many arguments and bytes.
    pub fn with_capacity(arguments: usize, bytes: usize) -> ArgsBuffer {
        ArgsBuffer { bytes: Vec::with_capacity(bytes), spans: Vec::with_capacity(arguments) }
    }

    /// Forgets the arguments and keeps the memory, unless it is much.
    pub fn clear(&mut self) {
        const KEPT: usize = 64 << 10;
        self.bytes.clear();
        self.spans.clear();
        self.bytes.shrink_to(KEPT);
        self.spans.shrink_to(KEPT / size_of::<Span>());
    }

    /// Adds an argument; `false` if the command would exceed 4 GiB.
    #[must_use]
    pub fn push(&mut self, argument: &[u8]) -> bool {
        let start = self.bytes.len();
        let Some(span) = Span::new(start..start + argument.len()) else { return false };
        self.bytes.extend_from_slice(argument);
        self.spans.push(span);
        true
    }

    /// Adds the arguments of a whole command behind all others: the position of the first here;
    /// `None` if all would exceed 4 GiB.
    #[inline]
    pub fn append(&mut self, args: Args<'_>) -> Option<usize> {
        let (first, base) = (args.spans.first()?.start, self.bytes.len());
        // What stands between them comes along: one copy is quicker than many.
        let extent = args.extent();
        u32::try_from(base + extent).ok()?;
        let start = first as usize;
        self.bytes.extend_from_slice(&args.bytes[start..start + extent]);
        let shift = (base as u32).wrapping_sub(first);
        let moved = |at: u32| at.wrapping_add(shift);
        let position = self.spans.len();
        self.spans.reserve(args.spans.len());
        for span in args.spans {
            self.spans.push(Span { start: moved(span.start), end: moved(span.end) });
        }
        Some(position)
    }

    /// The arguments so far.
    pub fn as_args(&self) -> Args<'_> {
        Args::new(&self.bytes, &self.spans)
    }

    /// The bytes of memory held.
    pub fn memory(&self) -> usize {
        self.bytes.capacity() + self.spans.capacity() * size_of::<Span>()
    }
}

/// Appends a command as a client would send it: an array of bulk strings.
pub fn encode_command<'a>(arguments: impl ExactSizeIterator<Item = &'a [u8]>, out: &mut Vec<u8>) {
    push_header(out, b'*', arguments.len());
    for argument in arguments {
        push_header(out, b'$', argument.len());
        out.extend_from_slice(argument);
        out.extend_from_slice(LINE_END);
    }
}

#[cfg(test)]
mod tests {
    use super::{Args, ArgsBuffer, OwnedArgs, Span, encode_command};

    fn owned(words: &[&str]) -> OwnedArgs {
        words.iter().map(|word| word.as_bytes()).collect()
    }

    #[test]
    fn arguments_are_reached_by_index_and_slice() {
        let owned = owned(&["set", "key", "", "value"]);
        let args = owned.as_args();
        assert_eq!(args.len(), 4);
        assert_eq!(&args[1], b"key");
        assert_eq!(args.get(2), Some(&b""[..]));
        assert_eq!(args.get(4), None);
        assert_eq!(args.total_bytes(), 11);
        assert_eq!((args.extent(), args.skip(3).extent(), args.skip(4).extent()), (11, 5, 0));
        assert_eq!(args.iter().next_back(), Some(&b"value"[..]));
        assert_eq!(args.skip(3).len(), 1);
        assert!(args.skip(5).is_empty());
        assert_eq!(&args.slice(1..9)[0], b"key");
        assert!(args.slice(7..9).is_empty());
        assert_eq!(format!("{:?}", OwnedArgs::from(args.slice(0..2))), r#"["\"set\"", "\"key\""]"#);
    }

    #[test]
    fn arguments_go_along_with_the_buffer_that_they_lie_in() {
        let mut buffer = b"PING\r\n".to_vec();
        let begin = buffer.len();
        encode_command([&b"SET"[..], b"key", b"value"].into_iter(), &mut buffer);
        let spans = [8, 17, 26].map(|at| Span::new(at..at + 3).unwrap());
        let args = Args::new(&buffer[begin..], &spans);
        assert_eq!(args.addresses().len(), args.extent());
        let (places, at) = (args.places(buffer.as_ptr().addr()), buffer.as_ptr());
        let owned = OwnedArgs::within(buffer, places);
        assert!(owned.as_args().iter().eq([&b"SET"[..], b"key", b"val"]));
        assert_eq!(owned.buffer().map(|buffer| buffer.as_ptr()), Some(at));
        assert!(owned.memory() > owned.as_args().extent());
        assert!(OwnedArgs::from(owned.as_args()).buffer().is_none());
        assert_eq!(Args::default().addresses(), 0..0);
    }

    #[test]
    #[should_panic(expected = "they lie in the buffer")]
    fn places_beyond_a_buffer_are_none() {
        let spans = [Span::new(0..4).unwrap()];
        let places = Args::new(b"PING", &spans).places(b"PING".as_ptr().addr());
        let _ = OwnedArgs::within(b"PIN".to_vec(), places);
    }

    #[test]
    fn a_buffer_takes_arguments_one_by_one_and_is_used_again() {
        let mut buffer = ArgsBuffer::default();
        for round in ["first", "second"] {
            buffer.clear();
            assert!(buffer.as_args().is_empty());
            assert!(buffer.push(b"echo") && buffer.push(round.as_bytes()) && buffer.push(b""));
            let expected = owned(&["echo", round, ""]);
            assert!(buffer.as_args().iter().eq(expected.as_args().iter()));
        }
    }

    #[test]
    fn command_behind_command() {
        let (first, second) = (owned(&["set", "key", ""]), owned(&["x", "incr", "other"]));
        let mut buffer = ArgsBuffer::default();
        assert_eq!(buffer.append(first.as_args()), Some(0));
        assert_eq!(buffer.append(second.as_args().skip(1)), Some(3));
        assert_eq!(buffer.append(first.as_args().skip(3)), None, "no command is empty");
        let all = buffer.as_args();
        assert!(all.slice(0..3).iter().eq(first.as_args().iter()));
        assert!(all.slice(3..5).iter().eq(second.as_args().skip(1).iter()));
    }

    #[test]
    fn encoding() {
        let mut out = Vec::new();
        owned(&["get", ""]).as_args().encode(&mut out);
        assert_eq!(out, b"*2\r\n$3\r\nget\r\n$0\r\n\r\n");
        out.clear();
        encode_command([&[b'x'; 100][..]].into_iter(), &mut out);
        assert!(out.starts_with(b"*1\r\n$100\r\nxxx"));
    }

    #[test]
    fn bytes_that_are_encoded_already() {
        let words = [&b"SET"[..], b"", &[b'x'; 10], &[b'y'; 100]];
        let mut text = b"PING\r\n".to_vec();
        let begin = text.len();
        encode_command(words.into_iter(), &mut text);
        let end = text.len();
        text.extend_from_slice(b"PING\r\n");
        let mut at = begin + "*4\r\n".len();
        let spans = words.map(|word| {
            let start = at + format!("${}\r\n", word.len()).len();
            at = start + word.len() + "\r\n".len();
            Span::new(start..start + word.len()).unwrap()
        });
        assert_eq!(Args::new(&text, &spans).encoded(), Some(&text[begin..end]));
        assert_eq!(Args::new(&text, &spans[1..]).encoded(), None, "it is not the first");
        assert_eq!(Args::new(&text, &spans[..3]).encoded(), None, "it is not the last");
        assert_eq!(Args::new(&text[..end - 1], &spans).encoded(), None);
        let is_argument = |at| spans.iter().any(|span| span.range().contains(&at));
        for at in (begin..end).filter(|at| !is_argument(*at)) {
            let mut other = text.clone();
            other[at] ^= 1;
            assert_eq!(Args::new(&other, &spans).encoded(), None, "byte {at}");
        }
        assert_eq!(owned(&["SET", "key"]).as_args().encoded(), None);
        assert_eq!(Args::default().encoded(), None);
    }
}
