//! Lines of `/etc/passwd` and `/etc/group`: a name, a password, numbers.
//!
//! Invariant: a line that is not whole, or whose numbers no account can have, names nobody.

use crate::number::parse_u64;

/// The `N` numbers behind name and password of the first line that is so named and has them: user
/// and group of a user, the one of a group.
pub fn numbers_of<const N: usize>(lines: &[u8], name: &[u8]) -> Option<[u32; N]> {
    if name.is_empty() {
        return None;
    }
    lines.split(|byte| *byte == b'\n').find_map(|line| {
        let mut fields = line.split(|byte| *byte == b':');
        if fields.next() != Some(name) {
            return None;
        }
        let mut numbers = [0; N];
        let mut texts = fields.skip(1);
        for number in &mut numbers {
            // The greatest one stands for none.
            let value = u32::try_from(parse_u64(texts.next()?)?).ok()?;
            *number = Some(value).filter(|value| *value != u32::MAX)?;
        }
        Some(numbers)
    })
}

#[cfg(test)]
mod tests {
    use super::numbers_of;

    #[test]
    fn an_account_has_a_line_with_its_numbers() {
        let users = b"root:x:0:0:root:/root:/bin/bash\n\nodd:x:y:1\nshort:x:1\n:x:5:5::\n\
                      none:x:4294967295:1\nmemcache:x:112:118:,,,:/nonexistent:/bin/false\n";
        assert_eq!(numbers_of(users, b"root"), Some([0, 0]));
        assert_eq!(numbers_of(users, b"memcache"), Some([112, 118]));
        for name in ["", "odd", "short", "none", "memcach", "nobody", "x", "root:x:0"] {
            assert_eq!(numbers_of::<2>(users, name.as_bytes()), None, "{name}");
        }
        let groups = b"root:x:0:\ndaemon:x:1:a,b\nodd:x:\n";
        assert_eq!(numbers_of(groups, b"daemon"), Some([1]));
        assert_eq!(numbers_of(groups, b"root"), Some([0]));
        assert_eq!(numbers_of::<1>(groups, b"odd"), None);
    }
}
