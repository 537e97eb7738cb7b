//! How far a handover is: our own request that the next primary becomes one.
//!
//! Invariant: once that was asked for, only a word of the other side says that it is not to be; a
//! connection that is lost says nothing.

/// How far a handover is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Handover {
    /// There is none, or the other side is the primary now.
    #[default]
    None,
    /// Nothing was asked yet.
    Begun,
    /// The other side is asked on the present connection, and on no other before.
    Asked,
    /// The connection is lost on which the other side was asked: it may be the primary, or not.
    InDoubt,
    /// The other side is asked again.
    AskedAgain,
    /// The other side is not to be the primary.
    Refused,
}

impl Handover {
    /// Whether the other side is to be asked, or is being asked.
    pub(super) fn is_underway(self) -> bool {
        !matches!(self, Self::None | Self::Refused)
    }

    /// Whether the other side may be the primary, or not.
    pub(super) fn is_in_doubt(self) -> bool {
        matches!(self, Self::InDoubt | Self::AskedAgain)
    }

    /// The request was given to the connection.
    pub(super) fn asked(self) -> Self {
        match self {
            Self::Begun => Self::Asked,
            Self::InDoubt => Self::AskedAgain,
            other => other,
        }
    }

    /// The connection is gone, or could not be made.
    pub(super) fn lost(self) -> Self {
        match self {
            Self::Begun => Self::Refused,
            Self::Asked | Self::AskedAgain => Self::InDoubt,
            other => other,
        }
    }
}
