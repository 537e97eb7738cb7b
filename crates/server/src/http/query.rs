//! What stands behind the question mark of a path.
//!
//! Invariant: values are bytes, since names of keys are; an escape that is none stays as it is.

/// The parameters of a request.
pub(super) struct Query(Vec<(String, Vec<u8>)>);

impl Query {
    /// Reads `name=value&name=value`.
    pub(super) fn parse(text: &str) -> Self {
        let pairs = text.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (String::from_utf8_lossy(&decode(name)).into_owned(), decode(value))
        });
        Self(pairs.collect())
    }

    /// The first value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_slice())
    }

    /// A number; `otherwise` where none is said, and an error text where it is none.
    pub(super) fn number(&self, name: &str, otherwise: u64) -> Result<u64, String> {
        let Some(value) = self.get(name) else { return Ok(otherwise) };
        let text = std::str::from_utf8(value).ok();
        let number = text.and_then(|text| text.parse().ok());
        number.ok_or_else(|| format!("'{name}' must be a number"))
    }
}

fn decode(text: &str) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => digit(*high).zip(digit(*low)),
            _ => None,
        };
        rest = after;
        decoded.push(match (escaped, first) {
            (Some((high, low)), _) => {
                rest = &after[2..];
                high << 4 | low
            }
            (None, b'+') => b' ',
            (None, plain) => *plain,
        });
    }
    decoded
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

#[cfg(test)]
mod tests {
    use super::Query;

    #[test]
    fn values_are_bytes() {
        let query = Query::parse("name=%00%fF%2B+a&db=3&empty=&flag&bad=%zz%4");
        assert_eq!(query.get("name"), Some(&b"\x00\xff+ a"[..]));
        assert_eq!(query.get("empty"), Some(&b""[..]));
        assert_eq!(query.get("flag"), Some(&b""[..]));
        assert_eq!(query.get("bad"), Some(&b"%zz%4"[..]));
        assert_eq!(query.get("nothing"), None);
        assert_eq!(query.number("db", 0), Ok(3));
        assert_eq!(query.number("nothing", 9), Ok(9));
        assert!(query.number("name", 0).is_err());
    }
}
