//! What one user may do.

use proto::Args;

use crate::check::{Asked, Denial};
use crate::password::Digest;

/// The rules of a user at one moment.
#[derive(Clone)]
pub struct Rules {
    pub(crate) is_on: bool,
    pub(crate) needs_no_password: bool,
    pub(crate) passwords: Vec<Digest>,
    all: bool,
}

impl Rules {
    /// Of who may do everything and need not say who it is.
    pub(crate) fn unlimited() -> Rules {
        Rules { is_on: true, needs_no_password: true, passwords: Vec::new(), all: true }
    }

    /// Whether the user may log in at all.
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether everything is allowed: all commands, keys, channels and databases.
    pub(crate) fn allows_everything(&self) -> bool {
        self.all
    }

    /// Whether the request is allowed, by the root or by one selector alone. The denial is that of
    /// whichever got furthest.
    pub fn check(&self, _asked: &Asked<'_>) -> Result<(), Denial> {
        if self.all { Ok(()) } else { Err(Denial::Command) }
    }

    /// Whether the command may be run on some keys, channels and databases.
    pub fn may_run(&self, _command: usize, _args: Args<'_>) -> bool {
        self.all
    }

    /// Whether the command may be run by someone who may read whatever key it meets, as SORT does
    /// with BY and GET.
    pub fn may_read_all_keys(&self, _command: usize, _args: Args<'_>) -> bool {
        self.all
    }

    /// Whether messages of this channel, or of this pattern, may be received.
    pub fn may_use_channel(&self, _name: &[u8], _is_pattern: bool) -> bool {
        self.all
    }
}
