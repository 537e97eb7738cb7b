//! How large a call is, in classes: what moves much takes long, so each size has a best of its own.
//!
//! Invariant: the classes are few, since each has a histogram for each command and worker.

/// The bytes of a request and its reply together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallSize {
    /// Below 1 KB.
    Small,
    /// Below 64 KB.
    Medium,
    /// From there on.
    Large,
}

impl CallSize {
    /// All of them, from the smallest on.
    pub const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    /// That of so many bytes.
    #[inline]
    pub(crate) const fn of(bytes: u64) -> Self {
        match bytes {
            0..1024 => Self::Small,
            1024..65_536 => Self::Medium,
            _ => Self::Large,
        }
    }

    /// Its word in metrics and lines.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CallSize;

    #[test]
    fn each_size_begins_where_the_one_before_ends() {
        let sizes = [0, 1023, 1024, 65_535, 65_536, u64::MAX].map(CallSize::of);
        let [small, medium, large] = CallSize::ALL;
        assert_eq!(sizes, [small, small, medium, medium, large, large]);
    }
}
