//! What the system says went wrong, as users read it.
//!
//! Invariant: the text is the system's own, without the number that std appends.

use std::io;

/// An error's text without the number that std appends: `No space left on device`.
pub fn strerror(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::strerror;

    #[test]
    fn the_number_is_left_out() {
        assert_eq!(strerror(&std::io::Error::from_raw_os_error(2)), "No such file or directory");
        assert_eq!(strerror(&std::io::Error::other("of our own")), "of our own");
    }
}
