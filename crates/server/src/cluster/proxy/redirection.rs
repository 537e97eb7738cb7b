//! Replies that send a request to another node.
//!
//! Invariant: a request goes to nodes of this cluster only, whatever a reply names.

use cluster::NodeId;

use crate::cluster::node::ClusterNode;

/// Where a reply sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RedirectedTo<'a> {
    /// Whether the slot is on the move to that node, and it is to be told so.
    pub(super) asks: bool,
    host: &'a str,
    port: u16,
}

impl<'a> RedirectedTo<'a> {
    /// What an error says, its first byte left out.
    pub(super) fn parse(error: &'a [u8]) -> Option<Self> {
        let text = std::str::from_utf8(error).ok()?.trim_end();
        let mut words = text.split(' ');
        let asks = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let (_slot, address) = (words.next()?, words.next()?);
        let (host, port) = address.rsplit_once(':')?;
        Some(Self { asks, host, port: port.parse().ok()? })
    }

    /// The node of that address, which another has named.
    pub(super) fn find(self, node: &ClusterNode, said_by: NodeId) -> Option<NodeId> {
        node.node_at(self.host, self.port, said_by)
    }
}

#[cfg(test)]
mod tests {
    use super::RedirectedTo;

    #[test]
    fn a_redirection_names_a_node() {
        let to = |asks, host, port| Some(RedirectedTo { asks, host, port });
        for (text, expected) in [
            ("MOVED 3999 127.0.0.1:6381\r\n", to(false, "127.0.0.1", 6381)),
            ("ASK 3999 ::1:6381", to(true, "::1", 6381)),
            ("MOVED 1 :7000", to(false, "", 7000)),
            ("MOVED 1 host-a.example:7000", to(false, "host-a.example", 7000)),
            ("MOVED 1", None),
            ("MOVED 1 host:x", None),
            ("MOVEDX 1 host:1", None),
            ("TRYAGAIN Multiple keys request", None),
            ("", None),
        ] {
            assert_eq!(RedirectedTo::parse(text.as_bytes()), expected, "{text}");
        }
    }
}
