//! `--eval`: a script from a file, with keys before a comma and arguments behind it.
//!
//! Invariant: a comma that stands alone ends the keys, the first one only.

use std::path::Path;
use std::process::ExitCode;

use base::io_error_text::strerror;

use crate::client::Client;

/// Runs the script as often as the options say.
pub(crate) fn eval(
    client: &mut Client,
    path: &Path,
    words: &[Vec<u8>],
) -> Result<ExitCode, String> {
    let request = request_of(path, words)?;
    client.connect()?;
    crate::repeat(client, &request)
}

/// The request that runs the script of a file.
pub(super) fn request_of(path: &Path, words: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let script = std::fs::read(path)
        .map_err(|error| format!("Can't open file '{}': {}", path.display(), strerror(&error)))?;
    Ok(request(script, words))
}

fn request(script: Vec<u8>, words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let comma = words.iter().position(|word| word == b",");
    let (keys, arguments) = match comma {
        Some(at) => (&words[..at], &words[at + 1..]),
        None => (words, &[][..]),
    };
    let mut request = vec![b"EVAL".to_vec(), script, keys.len().to_string().into_bytes()];
    request.extend_from_slice(keys);
    request.extend_from_slice(arguments);
    request
}

#[cfg(test)]
mod tests {
    use super::request;

    #[test]
    fn a_comma_parts_keys_from_arguments() {
        for (line, expected) in [
            ("", "EVAL x 0"),
            ("a b", "EVAL x 2 a b"),
            ("a , b c", "EVAL x 1 a b c"),
            (", b , c", "EVAL x 0 b , c"),
            ("a, b", "EVAL x 2 a, b"),
        ] {
            let words: Vec<Vec<u8>> = line.split_whitespace().map(Into::into).collect();
            let request = request(b"x".to_vec(), &words).join(&b' ');
            assert_eq!(String::from_utf8_lossy(&request), expected, "{line}");
        }
    }
}
