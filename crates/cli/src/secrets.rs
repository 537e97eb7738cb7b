//! Lines that hold a password, which no history keeps.
//!
//! Invariant: a line whose password cannot be told apart is taken for one that holds a password.

use base::quote::split_arguments;

/// Whether a line must not be kept.
pub(crate) fn holds_password(line: &[u8]) -> bool {
    let Some(words) = split_arguments(line.trim_ascii()) else {
        // A quote is missing; what stands in it may be anything.
        return line
            .to_ascii_lowercase()
            .windows(4)
            .any(|part| matches!(part, b"auth" | b"pass" | b"hell" | b"migr" | b"setu"));
    };
    let words: Vec<Vec<u8>> = words.iter().map(|word| word.to_ascii_lowercase()).collect();
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    // A number of repetitions may stand before the command.
    let is_number = words.first().is_some_and(|word| word.iter().all(u8::is_ascii_digit));
    let words = if is_number { &words[1..] } else { &words[..] };
    match words {
        [b"auth", ..] => true,
        [b"acl", b"setuser", ..] => true,
        [b"sentinel", b"set" | b"config", rest @ ..] | [b"config", b"set", rest @ ..] => {
            rest.iter().any(|word| word.windows(4).any(|part| part == b"auth" || part == b"pass"))
        }
        [b"hello", rest @ ..] => rest.contains(&&b"auth"[..]),
        [b"migrate", rest @ ..] => rest.contains(&&b"auth"[..]) || rest.contains(&&b"auth2"[..]),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::holds_password;

    #[test]
    fn lines_with_passwords_are_told_from_others() {
        for line in [
            "AUTH secret",
            "auth user secret",
            " 3 AUTH secret",
            "acl SetUser x on >secret",
            "CONFIG SET requirepass secret",
            "config set maxmemory 1 masterauth secret",
            "config set tls-key-file-pass secret",
            "sentinel set mymaster auth-pass secret",
            "HELLO 3 AUTH default secret",
            "migrate h 1 k 0 5 AUTH secret",
            "migrate h 1 k 0 5 AUTH2 user secret",
            "\"AUTH\" secret",
            "AUTH \"secret",
        ] {
            assert!(holds_password(line.as_bytes()), "{line}");
        }
        for line in [
            "GET auth",
            "SET auth x",
            "ACL LIST",
            "CONFIG SET maxmemory 1",
            "CONFIG GET requirepass",
            "HELLO 3",
            "migrate h 1 k 0 5",
            "",
        ] {
            assert!(!holds_password(line.as_bytes()), "{line}");
        }
    }
}
