//! Networks: addresses, and blocks of them as `10.0.0.0/8`.
//!
//! Invariant: an IPv4 address is the same whether it comes as such or within IPv6.

use std::net::IpAddr;
use std::sync::Arc;

use crate::kind::{Kind, PreviousValue, Special, Value, ValueError};
use crate::special::{show_text, text_line};
use crate::store::{Config, Readable, Shape};

/// A list of networks, kept as text; an empty one names all addresses.
pub(crate) const NETWORKS: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: parse_networks,
    show: show_text,
    lines: text_line,
});

/// A list of networks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Networks(Vec<Network>);

/// An address, and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Network {
    address: IpAddr,
    bits: u32,
}

impl Networks {
    /// Whether the list says nothing.
    pub fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address lies in one of them.
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(address))
    }
}

impl Network {
    fn parse(word: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(word).ok()?;
        let (address, bits) = text.split_once('/').map_or((text, None), |it| (it.0, Some(it.1)));
        let address = address.parse::<IpAddr>().ok()?.to_canonical();
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Self { address, bits })
    }

    fn contains(self, address: IpAddr) -> bool {
        let Self { address: own, bits } = self;
        match (own, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.leading_zeros() >= bits
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.leading_zeros() >= bits
            }
            _ => false,
        }
    }
}

fn parse_networks(words: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    if words.iter().any(|word| !word.is_empty() && Network::parse(word).is_none()) {
        return Err(ValueError::Borrowed("Invalid address or network: use 10.0.0.1 or 10.0.0.0/8"));
    }
    Ok(Value::text(words.join(&b' ')))
}

impl Readable for Networks {
    const SHAPE: Shape = Shape::Text;

    fn read(config: &Config, cell: usize) -> Networks {
        let text: Arc<[u8]> = Readable::read(config, cell);
        Networks(text.split(u8::is_ascii_whitespace).filter_map(Network::parse).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::{Network, Networks};

    #[test]
    fn a_network_has_its_addresses_and_no_others() {
        let cases = [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.1", "10.0.0.1", true),
            ("10.0.0.1", "10.0.0.2", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::1", "::1", true),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
        ];
        for (network, address, expected) in cases {
            let networks = Networks(vec![Network::parse(network.as_bytes()).unwrap()]);
            assert_eq!(networks.contain(address.parse().unwrap()), expected, "{network} {address}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for word in ["", "x", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(word.as_bytes()), None, "{word}");
        }
    }
}
