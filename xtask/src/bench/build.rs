//! Which build of ours is measured. Invariant: the build is of the sources as they are now, and
//! every text with figures says which.

use std::path::PathBuf;

use crate::{release, shell};

/// How a binary is built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Build {
    /// As anybody builds it.
    Plain,
    /// The build as it is packaged, by the profile of the last `cargo xtask release`.
    Tuned,
}

impl Build {
    /// Builds the server; its binary.
    pub(super) fn make(self) -> Result<PathBuf, String> {
        match self {
            Self::Plain => {
                shell::run(&mut shell::cargo(&["build", "--release", "--package", "apus"]))?;
                Ok(shell::target().join("release/apus"))
            }
            Self::Tuned => release::tuned(),
        }
    }

    /// How the texts call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Plain => "the plain one, `cargo build --release`",
            Self::Tuned => "the profile-guided one, `cargo xtask release`",
        }
    }
}
