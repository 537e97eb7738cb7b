//! Names of nodes and of shards: forty digits each.
//!
//! Invariant: an id holds nothing but lower-case letters and digits, so it stands unquoted in
//! lines of text.

use std::fmt;

use base::Random;

/// The length of an id.
pub(crate) const ID_LEN: usize = 40;

/// The name of a node, drawn once and kept for good.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; ID_LEN]);

impl NodeId {
    /// A new name.
    pub fn random(random: &mut Random) -> NodeId {
        let digits = b"0123456789abcdef";
        NodeId(std::array::from_fn(|_| digits[random.below(16) as usize]))
    }

    /// The name that `text` is, if its length and its characters are right.
    pub fn parse(text: &[u8]) -> Option<NodeId> {
        let bytes: [u8; ID_LEN] = text.try_into().ok()?;
        let is_right = bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        is_right.then_some(NodeId(bytes))
    }

    /// The text of the name.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("an id is ASCII")
    }

    pub(crate) fn as_bytes(&self) -> &[u8; ID_LEN] {
        &self.0
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.as_str()[..8])
    }
}

/// The name of a shard: a primary and its replicas have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ShardId(pub NodeId);

impl fmt::Display for ShardId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use base::Random;

    use super::NodeId;

    #[test]
    fn an_id_is_forty_small_letters_and_digits() {
        let drawn = NodeId::random(&mut Random::from_seed(1));
        assert_eq!(NodeId::parse(drawn.as_str().as_bytes()), Some(drawn));
        assert!(NodeId::parse(&[b'z'; 40]).is_some());
        for wrong in [&[b'a'; 39][..], &[b'a'; 41], &[b'A'; 40], &[0; 40], &[b' '; 40], &[0xc3; 40]]
        {
            assert_eq!(NodeId::parse(wrong), None, "{}", wrong.escape_ascii());
        }
    }
}
