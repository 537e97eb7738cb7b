//! The end of a process that must not go on with what is in memory.
//!
//! Invariant: it is said why before it ends.

use crate::keyspace::Keyspace;

/// Says why the process ends.
pub(crate) type LastWords = Box<dyn Fn(&str) + Send + Sync>;

impl Keyspace {
    /// Names who says why the process ends; called once.
    pub fn set_last_words(&self, say: impl Fn(&str) + Send + Sync + 'static) {
        let first = self.last_words.set(Box::new(say)).is_ok();
        assert!(first, "one process ends once");
    }

    /// Ends the process, which must not go on with what is in memory.
    #[cold]
    pub fn ruin(&self, why: &str) -> ! {
        if let Some(say) = self.last_words.get() {
            say(why);
        }
        std::process::abort();
    }
}
