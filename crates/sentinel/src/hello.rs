//! The hello that Sentinels send each other through the instances they watch: eight fields, set
//! apart by commas.
//!
//! Invariants: any bytes are read without a panic; what is read fits the lines it goes into; an
//! epoch can still be raised for as long as any cluster lives.

use base::number::parse_u64;

use crate::address::is_host;
use crate::info::{is_run_id, port};

/// The channel of hellos.
pub const HELLO_CHANNEL: &str = "__sentinel__:hello";

/// No epoch of another Sentinel above this is believed: counting on from it must not run over.
pub(crate) const EPOCH_MAX: u64 = u64::MAX >> 2;

/// A hello.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) id: String,
    pub(crate) epoch: u64,
    pub(crate) name: String,
    pub(crate) primary_host: String,
    pub(crate) primary_port: u16,
    pub(crate) config_epoch: u64,
}

impl Hello {
    /// Reads a payload.
    pub(crate) fn read(payload: &[u8]) -> Option<Hello> {
        let text = std::str::from_utf8(payload).ok()?;
        let fields: Vec<&str> = text.splitn(9, ',').collect();
        let [host, own_port, id, epoch, name, primary_host, primary_port, config_epoch] =
            fields[..]
        else {
            return None;
        };
        if !is_host(host) || !is_host(primary_host) || !is_run_id(id) {
            return None;
        }
        let epoch_of = |text: &str| parse_u64(text.as_bytes()).filter(|epoch| *epoch <= EPOCH_MAX);
        Some(Hello {
            host: host.to_owned(),
            port: port(own_port)?,
            id: id.to_owned(),
            epoch: epoch_of(epoch)?,
            name: name.to_owned(),
            primary_host: primary_host.to_owned(),
            primary_port: port(primary_port)?,
            config_epoch: epoch_of(config_epoch)?,
        })
    }

    /// The payload.
    pub(crate) fn payload(&self) -> String {
        let Hello { host, port, id, epoch, name, primary_host, primary_port, config_epoch } = self;
        format!("{host},{port},{id},{epoch},{name},{primary_host},{primary_port},{config_epoch}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};

    use super::Hello;

    const ID: &str = "0123456789abcdef0123456789abcdef01234567";

    #[test]
    fn the_eight_fields() {
        let text = format!("10.0.0.9,26379,{ID},7,mymaster,10.0.0.1,6379,5");
        let hello = Hello::read(text.as_bytes()).unwrap();
        assert_eq!((hello.host.as_str(), hello.port, hello.epoch), ("10.0.0.9", 26379, 7));
        assert_eq!((hello.name.as_str(), hello.id.as_str()), ("mymaster", ID));
        assert_eq!((hello.primary_host.as_str(), hello.primary_port), ("10.0.0.1", 6379));
        assert_eq!(hello.config_epoch, 5);
        assert_eq!(hello.payload(), text);
    }

    #[test]
    fn what_is_no_hello() {
        for text in [
            "",
            ",,,,,,,",
            "a,1,ID,1,m,b,2",
            "a,1,ID,1,m,b,2,3,4",
            "a,1,ID,1,m,n,b,2,3",
            "a,0,ID,1,m,b,2,3",
            "a,65536,ID,1,m,b,2,3",
            "a,1,short,1,m,b,2,3",
            "a,1,ID,-1,m,b,2,3",
            "a,1,ID,18446744073709551615,m,b,2,3",
            "a,1,ID,1,m,b,2,9223372036854775808",
            "a b,1,ID,1,m,b,2,3",
            "a\n,1,ID,1,m,b,2,3",
        ] {
            assert_eq!(Hello::read(text.replace("ID", ID).as_bytes()), None, "{text}");
        }
        assert_eq!(Hello::read(b"\xff,1,x"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in any::<Vec<u8>>()) {
            Hello::read(&bytes);
        }

        #[test]
        fn what_is_read_is_written_again(text in "[a-z.:0-9]{1,9},[0-9]{1,6},[0-9a-f]{39,41},\
            [0-9]{1,3},[ -~]{0,5},[a-z0-9.]{1,9},[0-9]{1,5},[0-9]{1,2}") {
            if let Some(hello) = Hello::read(text.as_bytes()) {
                prop_assert_eq!(hello.payload(), text);
            }
        }
    }
}
