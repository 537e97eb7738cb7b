//! The events of a Sentinel as others see them: a level, a name that is also a channel, a text.
//!
//! Invariant: a text is one line.

/// How loud an event or a line of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not published.
    Debug,
    /// Of little interest.
    Verbose,
    /// Of interest.
    Notice,
    /// For operators: the notification script is told, too.
    Warning,
    /// Log nothing: not a level of any event.
    Nothing,
}

impl Level {
    /// The level that a configuration calls by this word.
    pub(crate) fn named(word: &str) -> Option<Level> {
        let all = [Level::Debug, Level::Verbose, Level::Notice, Level::Warning, Level::Nothing];
        all.into_iter().find(|level| word.eq_ignore_ascii_case(level.word()))
    }

    /// The word of a configuration.
    pub fn word(self) -> &'static str {
        match self {
            Level::Debug => "debug",
            Level::Verbose => "verbose",
            Level::Notice => "notice",
            Level::Warning => "warning",
            Level::Nothing => "nothing",
        }
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How loud.
    pub level: Level,
    /// Its name and its channel.
    pub event: &'static str,
    /// The published text; the log's line is the name, a blank and the text.
    pub text: String,
}
