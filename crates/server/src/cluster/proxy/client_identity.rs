//! A link as the other node knows it.
//!
//! Invariant: two links do not have the same identity, also if the node was started anew between
//! them: its ids begin anew, and addresses do not come again soon.

/// What CLIENT INFO and CLIENT LIST say of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ClientIdentity {
    id: i64,
    /// How its line begins: its id and its address.
    beginning: String,
}

impl ClientIdentity {
    /// What a line says.
    pub(super) fn parse(line: &[u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let mut words = line.split(' ');
        let (id, address) = (words.next()?, words.next()?);
        let number = id.strip_prefix("id=")?.parse().ok()?;
        let _ = address.strip_prefix("addr=")?;
        Some(Self { id: number, beginning: format!("{id} {address} ") })
    }

    /// Its id.
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    /// Whether a reply tells of it.
    pub(super) fn is_in(&self, reply: &[u8]) -> bool {
        let beginning = self.beginning.as_bytes();
        reply.windows(beginning.len()).any(|part| part == beginning)
    }
}

#[cfg(test)]
mod tests {
    use super::ClientIdentity;

    #[test]
    fn a_client_of_the_same_id_is_another() {
        let line = b"id=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=8 name=\n";
        let identity = ClientIdentity::parse(line).expect("a line");
        assert_eq!(identity.id(), 7);
        for (reply, is_in) in [
            ("$52\r\nid=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=9\n\r\n", true),
            ("=56\r\ntxt:id=7 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=9\n\r\n", true),
            ("$52\r\nid=7 addr=127.0.0.1:50001 laddr=127.0.0.1:6379 fd=9\n\r\n", false),
            ("$52\r\nid=77 addr=127.0.0.1:5000 laddr=127.0.0.1:6379 fd=9\n\r\n", false),
            ("$0\r\n\r\n", false),
        ] {
            assert_eq!(identity.is_in(reply.as_bytes()), is_in, "{reply}");
        }
        for text in ["OK", "", "id=7", "id=x addr=a ", "server redis"] {
            assert_eq!(ClientIdentity::parse(text.as_bytes()), None, "{text}");
        }
    }
}
