//! Headers that go with each export, as OpenTelemetry's exporters take them: `name=value` pairs
//! with commas between them, values with percent signs for what may not stand there.
//!
//! Invariants: no header that frames the request can be set; an error never tells a value, which
//! may be a secret.

/// Headers that are ours to set, and whose change would make another request of it.
const OWN: &[&str] = &[
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "expect",
    "host",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

const BLANKS: [char; 2] = [' ', '\t'];

/// Reads headers: names in lower case, and values.
pub fn read(text: &str) -> Result<Vec<(String, String)>, String> {
    let pairs = text.split(',').enumerate().filter(|(_, pair)| !pair.trim().is_empty());
    pairs.map(|(place, pair)| read_pair(pair).map_err(|why| told(place, why))).collect()
}

fn told(place: usize, why: &str) -> String {
    format!("header {} {why}", place + 1)
}

fn read_pair(pair: &str) -> Result<(String, String), &'static str> {
    let (name, value) = pair.split_once('=').ok_or("is no name=value")?;
    let name = name.trim_matches(BLANKS).to_ascii_lowercase();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err("has no name of a header");
    }
    if OWN.contains(&&*name) {
        return Err("has a name that cannot be set");
    }
    let value = decoded(value.trim_matches(BLANKS))
        .ok_or("has a percent sign without two digits behind it")?;
    let is_visible = |byte: &u8| *byte == b' ' || byte.is_ascii_graphic();
    match String::from_utf8(value) {
        Ok(value) if value.bytes().all(|byte| is_visible(&byte)) => Ok((name, value)),
        _ => Err("has a value with bytes that no header may hold"),
    }
}

fn decoded(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, behind)) = rest.split_first() {
        rest = behind;
        if first != b'%' {
            bytes.push(first);
            continue;
        }
        let (digits, behind) = rest.split_at_checked(2)?;
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(digits[0])? * 16 + digit(digits[1])?) as u8);
        rest = behind;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn pairs_are_read() {
        let all = read("Api-Key=s%3Da%2cb, x = y=z,,").expect("they are headers");
        let expected = [("api-key", "s=a,b"), ("x", "y=z")];
        assert_eq!(all, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert_eq!(read(""), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_header_is_refused_and_told_without_its_value() {
        for text in [
            "secret",
            "=secret",
            "a b=secret",
            "a\r\n=secret",
            "Host=secret",
            "content-length=secret",
            "a=secret%0d%0ab",
            "a=secret%2",
            "a=secret%+1",
            "a=secret\u{e4}",
        ] {
            let why = read(&format!("fine=1,{text}")).expect_err(text);
            assert!(why.starts_with("header 2 ") && !why.contains("secret"), "{why}");
        }
    }
}
