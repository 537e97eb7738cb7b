//! The stack of a thread as addresses, and a text with it, in memory that is there from the start.
//!
//! Invariant: one thread writes it at a time; a reader sees of it what was written so far.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// The deepest stack that is told whole.
pub(crate) const FRAMES_MAX: usize = 128;

/// How long the text may be.
const TEXT_MAX: usize = 2048;

/// The addresses on a stack, the innermost first.
pub(crate) struct Trace {
    frames: [AtomicUsize; FRAMES_MAX],
    count: AtomicUsize,
    text: [AtomicU8; TEXT_MAX],
    length: AtomicUsize,
}

impl Trace {
    pub(crate) const fn new() -> Self {
        Self {
            frames: [const { AtomicUsize::new(0) }; FRAMES_MAX],
            count: AtomicUsize::new(0),
            text: [const { AtomicU8::new(0) }; TEXT_MAX],
            length: AtomicUsize::new(0),
        }
    }

    pub(crate) fn clear(&self) {
        self.count.store(0, Ordering::Release);
        self.length.store(0, Ordering::Release);
    }

    /// Adds an address; `false` if there is no more room.
    pub(crate) fn push(&self, address: usize) -> bool {
        let count = self.count.load(Ordering::Relaxed);
        let Some(frame) = self.frames.get(count) else { return false };
        frame.store(address, Ordering::Relaxed);
        self.count.store(count + 1, Ordering::Release);
        true
    }

    /// The addresses from the one on at which the thread was interrupted, if that is known and
    /// among them.
    pub(crate) fn frames_from(&self, interrupted: usize) -> impl Iterator<Item = usize> {
        let count = self.count.load(Ordering::Acquire);
        let frames = &self.frames[..count];
        let first = frames.iter().position(|it| it.load(Ordering::Relaxed) == interrupted);
        frames[first.unwrap_or(0)..].iter().map(|it| it.load(Ordering::Relaxed))
    }

    /// What was written beside the addresses.
    pub(crate) fn text(&self) -> String {
        let length = self.length.load(Ordering::Acquire);
        let bytes: Vec<u8> =
            self.text[..length].iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Where text is added; what finds no room is left out.
    pub(crate) fn writer(&self) -> impl Write {
        struct Writer<'a>(&'a Trace);
        impl Write for Writer<'_> {
            fn write_str(&mut self, text: &str) -> fmt::Result {
                let length = self.0.length.load(Ordering::Relaxed);
                let room = self.0.text[length..].iter();
                let taken = room.zip(text.bytes()).map(|(cell, byte)| {
                    cell.store(byte, Ordering::Relaxed);
                });
                self.0.length.store(length + taken.count(), Ordering::Release);
                Ok(())
            }
        }
        Writer(self)
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use super::{FRAMES_MAX, TEXT_MAX, Trace};

    #[test]
    fn a_stack_is_told_from_where_it_was_interrupted() {
        let trace = Trace::new();
        (1..=5).for_each(|address| assert!(trace.push(address)));
        assert_eq!(trace.frames_from(3).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!(trace.frames_from(9).count(), 5, "what is not found takes nothing away");
        trace.clear();
        assert_eq!(trace.frames_from(3).count(), 0);
    }

    #[test]
    fn what_finds_no_room_is_left_out() {
        let trace = Trace::new();
        let pushed = (0..2 * FRAMES_MAX).filter(|address| trace.push(*address)).count();
        assert_eq!((pushed, trace.frames_from(0).count()), (FRAMES_MAX, FRAMES_MAX));
        for _ in 0..TEXT_MAX {
            write!(trace.writer(), "ab{}", 1).expect("text that finds no room is left out");
        }
        let text = trace.text();
        assert!(text.len() == TEXT_MAX && text.starts_with("ab1ab1"));
    }
}
