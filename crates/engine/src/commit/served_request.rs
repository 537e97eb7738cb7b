//! A request as a crash report tells of it.
//!
//! Invariants: whichever way a request runs, its handler or its program runs within `serve`. What a
//! client sent is shown only where `hide-user-data-from-log` is off; the teller may be a signal
//! handler, so nothing is allocated.

use std::fmt::Arguments;

use config::settings::HIDE_USER_DATA_FROM_LOG;
use crash::Activity;
use proto::Args;

use crate::clients::client_id::ClientId;
use crate::shared::Shared;
use crate::table::command_table::CommandEntry;

/// A request that is being run.
pub struct ServedRequest<'a> {
    /// Says whether the words may be shown.
    pub server: &'a Shared,
    /// The client, where that is known.
    pub client: Option<ClientId>,
    /// The command.
    pub entry: &'static CommandEntry,
    /// The words.
    pub args: Args<'a>,
}

/// How much is shown of a request, and of one of its arguments.
const SHOWN_ARGUMENTS: usize = 32;
const SHOWN_BYTES: usize = 128;

impl ServedRequest<'_> {
    /// Runs the request; a crash report that is made meanwhile tells of it.
    #[inline]
    pub fn serve<T>(&self, work: impl FnOnce() -> T) -> T {
        crash::serving(self, work)
    }
}

impl Activity for ServedRequest<'_> {
    fn client(&self) -> Option<ClientId> {
        self.client
    }

    fn describe(&self, line: &mut dyn FnMut(Arguments<'_>)) {
        let Self { server, client, entry, args } = self;
        match client {
            Some(id) => line(format_args!("serving client id={id} cmd={}", entry.full_name)),
            None => line(format_args!("serving cmd={}", entry.full_name)),
        }
        let bytes = args.total_bytes();
        line(format_args!("arguments: {} of {bytes} bytes together", args.len()));
        if server.config.get(HIDE_USER_DATA_FROM_LOG) {
            return line(format_args!("(not shown: hide-user-data-from-log is on)"));
        }
        for (number, argument) in args.iter().take(SHOWN_ARGUMENTS).enumerate() {
            let shown = &argument[..argument.len().min(SHOWN_BYTES)];
            line(format_args!(
                "argv[{number}] ({} bytes): \"{}\"",
                argument.len(),
                shown.escape_ascii()
            ));
        }
    }
}
