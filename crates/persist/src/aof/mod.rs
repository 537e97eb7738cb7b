//! Journals on disk: the files that make one, and the commands in them.
//!
//! A journal is a directory with a base (a snapshot, or commands), increments (commands), and a
//! manifest that names them; before Redis 7.0 it was one file of commands, maybe begun by a
//! snapshot.

mod check_line;
pub(crate) mod commands;
mod cut_point;
pub mod manifest;
mod padding;
mod read;
mod stream_note;
mod sync_mark;
#[cfg(test)]
mod tests;

pub use check_line::{check_line, check_line_of};
pub use cut_point::CutPoint;
pub use padding::{PADDING_LINE, filler, filler_length, pad_lines, padding, spacer};
pub use read::{AofDamage, AofError, Unit, UnitReader};
pub use stream_note::{HistoryPlace, StreamNote, history_line};
pub use sync_mark::{SyncMark, is_synced_beyond};
