//! What is written to the log when there is no memory for it, or in a signal handler.
//!
//! Invariant: nothing here allocates or waits. A lock that is held is not waited for, as its holder
//! may be this thread: the line then goes to the standard error output.

use std::fmt::{self, Arguments, Display, Formatter, Write};
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Mutex;

use base::time::Clock;
use config::{LogFormat, LogLevel};
use rustix::stdio::{stderr, stdout};

use crate::runtime::log::{Line, Shape};

/// The log once more.
pub(super) struct SignalSafeLog {
    pub(super) outlet: LastResortSink,
    pub(super) shape: Shape,
    pub(super) clock: Clock,
}

/// Where last words go.
pub(super) enum LastResortSink {
    Output,
    File(File),
    Nowhere,
}

static LAST_RESORT: Mutex<Option<SignalSafeLog>> = Mutex::new(None);

/// Has last words go there.
pub(super) fn go_to(last_resort: SignalSafeLog) {
    *LAST_RESORT.lock().expect("no critical section here panics") = Some(last_resort);
}

/// Says that the system refused memory, on whatever thread asked for it: mostly it is the last that
/// the process says. Where there is no file nothing is said: the standard error output is told by
/// the library.
pub(super) fn report_refusal(bytes: usize) {
    let Ok(last_resort) = LAST_RESORT.try_lock() else { return };
    let Some(SignalSafeLog { outlet: LastResortSink::File(file), shape, clock }) = &*last_resort
    else {
        return;
    };
    let text = format_args!("memory allocation of {bytes} bytes failed");
    write_dated(file.as_fd(), *shape, clock, text);
}

/// Writes a line of a crash report: one of the log, or a bare one where the log's form has such.
pub fn write_line(is_bare: bool, text: Arguments<'_>) {
    let Ok(last_resort) = LAST_RESORT.try_lock() else {
        return write_bare(stderr(), text);
    };
    let Some(SignalSafeLog { outlet, shape, clock }) = &*last_resort else {
        return write_bare(stderr(), text);
    };
    let outlet = match outlet {
        LastResortSink::Output => stdout(),
        LastResortSink::File(file) => file.as_fd(),
        LastResortSink::Nowhere => return,
    };
    if is_bare && shape.format == LogFormat::Legacy {
        write_bare(outlet, text);
    } else {
        write_dated(outlet, *shape, clock, text);
    }
}

/// The longest text of a line, and the longest line of a log.
const TEXT_MAX: usize = 1024;
const LINE_MAX: usize = 3 * TEXT_MAX;

fn write_bare(outlet: BorrowedFd<'_>, text: Arguments<'_>) {
    let mut line = LineBuffer::<TEXT_MAX>::new();
    // What finds no room is left out, but for the end of the line.
    let _ = write!(line, "{text}");
    line.end();
    line.write_to(outlet);
}

fn write_dated(outlet: BorrowedFd<'_>, shape: Shape, clock: &Clock, text: Arguments<'_>) {
    let (mut plain, mut shown) = (LineBuffer::<TEXT_MAX>::new(), LineBuffer::<LINE_MAX>::new());
    let _ = write!(plain, "{text}");
    let _ = write!(shown, "{}", Escaped { text: plain.text(), format: shape.format });
    let mut line = LineBuffer::<LINE_MAX>::new();
    let (level, now_ms, shown) = (LogLevel::Warning, clock.now_ms(), shown.text());
    let _ = write!(line, "{}", Line { shape, level, now_ms, shown });
    line.end();
    line.write_to(outlet);
}

/// A text as a format of the log wants it.
struct Escaped<'a> {
    text: &'a str,
    format: LogFormat,
}

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let is_quoted = self.format != LogFormat::Legacy;
        let quote = if is_quoted { "\"" } else { "" };
        f.write_str(quote)?;
        for letter in self.text.chars() {
            match letter {
                '"' | '\\' if is_quoted => write!(f, "\\{letter}")?,
                control if control.is_control() => match self.format {
                    LogFormat::Json => write!(f, "\\u{:04x}", u32::from(control))?,
                    LogFormat::Logfmt => write!(f, "\\x{:02x}", u32::from(control))?,
                    LogFormat::Legacy => write!(f, "{}", control.escape_default())?,
                },
                other => f.write_char(other)?,
            }
        }
        f.write_str(quote)
    }
}

/// Room for a line.
struct LineBuffer<const MAX: usize> {
    bytes: [u8; MAX],
    length: usize,
}

impl<const MAX: usize> LineBuffer<MAX> {
    fn new() -> Self {
        Self { bytes: [0; MAX], length: 0 }
    }

    fn text(&self) -> &str {
        let bytes = &self.bytes[..self.length];
        str::from_utf8(bytes).expect("only whole letters are added")
    }

    /// Ends the line, over its last letter if there is no room.
    fn end(&mut self) {
        if !self.text().ends_with('\n') {
            self.length = self.length.min(MAX - 1);
            self.bytes[self.length] = b'\n';
            self.length += 1;
        }
    }

    fn write_to(&self, outlet: BorrowedFd<'_>) {
        let mut rest = &self.bytes[..self.length];
        // No reader is left to tell.
        while let Ok(written @ 1..) = rustix::io::write(outlet, rest) {
            rest = &rest[written..];
        }
    }
}

impl<const MAX: usize> Write for LineBuffer<MAX> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = MAX - self.length;
        let taken = &text[..text.floor_char_boundary(room)];
        self.bytes[self.length..][..taken.len()].copy_from_slice(taken.as_bytes());
        self.length += taken.len();
        if taken.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;

    use config::LogFormat;

    use super::{Escaped, LineBuffer};

    #[test]
    fn a_line_takes_what_it_has_room_for_and_ends() {
        let mut line = LineBuffer::<8>::new();
        assert!(write!(line, "abc").is_ok());
        assert!(write!(line, "defg\u{e9}").is_err(), "half a letter is none");
        assert_eq!(line.text(), "abcdefg");
        line.end();
        assert_eq!(line.text(), "abcdefg\n");
        assert!(write!(line, "x").is_err());
        line.end();
        assert_eq!(line.text(), "abcdefg\n");
    }

    #[test]
    fn each_format_has_its_escapes() {
        let shown = |format| Escaped { text: "a\"\\\n", format }.to_string();
        assert_eq!(shown(LogFormat::Legacy), "a\"\\\\n");
        assert_eq!(shown(LogFormat::Json), r#""a\"\\\u000a""#);
        assert_eq!(shown(LogFormat::Logfmt), r#""a\"\\\x0a""#);
    }
}
