//! Which node serves which slot. Invariant: every slot names a node of the list, though not
//! necessarily the right one: a wrong one answers MOVED, and the map learns.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use base::number::parse_u64;
use proto::value::{ReplyLimits, ReplyParser, Value};

use super::dial::{Address, Greeting, append_request};
use super::encrypted::{Blocking, Encryptor, blocking};
use crate::options::{Family, Options};

/// Hash slots of a cluster.
const SLOTS: usize = 16_384;

/// How long the first node may take to describe the cluster.
const PATIENCE: Duration = Duration::from_secs(10);

/// A node as the cluster names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    host: String,
    port: u16,
}

/// The nodes and their slots, as far as they are known.
#[derive(Clone, Debug)]
pub(super) struct SlotMap {
    nodes: Vec<Endpoint>,
    addresses: Vec<Address>,
    owners: Vec<u16>,
    family: Option<Family>,
}

/// A redirection by a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirection {
    /// ASK: for this request only.
    pub(super) is_ask: bool,
    /// The slot that is served elsewhere.
    pub(super) slot: u16,
    /// By which node; an empty host means the host of the node that answered.
    endpoint: Endpoint,
}

impl Redirection {
    /// Reads `MOVED slot host:port` or `ASK slot host:port`; any other error is `None`.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split(' ');
        let is_ask = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok().filter(|slot| usize::from(*slot) < SLOTS)?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let endpoint = Endpoint { host: host.to_owned(), port: port.parse().ok()? };
        Some(Self { is_ask, slot, endpoint })
    }
}

impl SlotMap {
    /// Asks the server that the options name.
    pub(super) fn fetch(options: &Options, encryptor: Option<&Encryptor>) -> Result<Self, String> {
        let Address::Tcp(name, addresses) = Address::of(options)? else {
            return Err("a cluster is not reached over a Unix socket".to_owned());
        };
        let mut connection = Connection::open(&name, &addresses, encryptor)?;
        connection.greet(&Greeting::of(options))?;
        let ranges = match connection.ask(&["CLUSTER", "SLOTS"])? {
            Value::Error(refused) => match connection.ask(&["CLUSTER", "SHARDS"])? {
                Value::Error(_) => return Err(String::from_utf8_lossy(&refused).into_owned()),
                shards => ranges_of_shards(&shards),
            },
            slots => ranges_of_slots(&slots),
        };
        let ranges = ranges.ok_or("the cluster describes itself in no known form")?;
        Self::new(&ranges, &options.server, options.family)
    }

    /// A map of these ranges; a node without a host is at `seed`.
    fn new(ranges: &[SlotRange], seed: &str, family: Option<Family>) -> Result<Self, String> {
        let mut map =
            Self { nodes: Vec::new(), addresses: Vec::new(), owners: vec![0; SLOTS], family };
        for range in ranges {
            let node = map.node(&range.endpoint, seed)?;
            for owner in &mut map.owners[usize::from(range.first)..=usize::from(range.last)] {
                *owner = node;
            }
        }
        if map.nodes.is_empty() {
            return Err("no node of the cluster serves a slot".to_owned());
        }
        Ok(map)
    }

    /// The number of an endpoint, which is added unless it is known.
    fn node(&mut self, endpoint: &Endpoint, default_host: &str) -> Result<u16, String> {
        let mut endpoint = endpoint.clone();
        if matches!(&*endpoint.host, "" | "?") {
            default_host.clone_into(&mut endpoint.host);
        }
        if let Some(known) = self.nodes.iter().position(|node| *node == endpoint) {
            return Ok(known as u16);
        }
        let number = u16::try_from(self.nodes.len()).map_err(|_| "too many nodes")?;
        self.addresses.push(Address::resolve(&endpoint.host, endpoint.port, self.family)?);
        self.nodes.push(endpoint);
        Ok(number)
    }

    /// Where each node is.
    pub(super) fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// The node that serves a slot.
    #[inline]
    pub(super) fn owner(&self, slot: u16) -> usize {
        usize::from(self.owners[usize::from(slot) % SLOTS])
    }

    /// The node that serves a request that node `by` redirected. MOVED is remembered.
    pub(super) fn follow(&mut self, to: &Redirection, by: usize) -> Result<usize, String> {
        let host = self.nodes[by].host.clone();
        let node = self.node(&to.endpoint, &host)?;
        if !to.is_ask {
            self.owners[usize::from(to.slot)] = node;
        }
        Ok(usize::from(node))
    }
}

#[derive(Debug, PartialEq, Eq)]
struct SlotRange {
    first: u16,
    last: u16,
    endpoint: Endpoint,
}

impl SlotRange {
    fn new(first: i64, last: i64, endpoint: Endpoint) -> Option<Self> {
        let slot = |number| u16::try_from(number).ok().filter(|slot| usize::from(*slot) < SLOTS);
        let (first, last) = (slot(first)?, slot(last)?);
        (first <= last).then_some(Self { first, last, endpoint })
    }
}

/// Reads the reply of CLUSTER SLOTS: `[first, last, [host, port, ...], replicas...]` per range.
fn ranges_of_slots(reply: &Value) -> Option<Vec<SlotRange>> {
    let Value::Array(ranges) = reply else { return None };
    let range = |range: &Value| {
        let Value::Array(parts) = range else { return None };
        let [Value::Integer(first), Value::Integer(last), Value::Array(master), ..] = &parts[..]
        else {
            return None;
        };
        let [host, Value::Integer(port), ..] = &master[..] else { return None };
        let endpoint = Endpoint { host: text(host)?, port: u16::try_from(*port).ok()? };
        SlotRange::new(*first, *last, endpoint)
    };
    ranges.iter().map(range).collect()
}

/// Reads the reply of CLUSTER SHARDS: per shard its `slots`, first and last in turn, and its
/// `nodes`, of which the master serves.
fn ranges_of_shards(reply: &Value) -> Option<Vec<SlotRange>> {
    let Value::Array(shards) = reply else { return None };
    let mut ranges = Vec::new();
    for shard in shards {
        let Value::Array(slots) = field(shard, "slots")? else { return None };
        let Value::Array(nodes) = field(shard, "nodes")? else { return None };
        let is_master = |node: &&Value| {
            field(node, "role").and_then(Value::as_bytes).is_some_and(|role| role == b"master")
        };
        let Some(master) = nodes.iter().find(is_master) else { continue };
        let host = text(field(master, "endpoint").or_else(|| field(master, "ip"))?)?;
        let port = number(field(master, "port")?)?;
        let endpoint = Endpoint { host, port: u16::try_from(port).ok()? };
        for pair in slots.chunks(2) {
            let [first, last] = pair else { return None };
            ranges.push(SlotRange::new(number(first)?, number(last)?, endpoint.clone())?);
        }
    }
    Some(ranges)
}

/// A field of a map, or of an array of names and values.
fn field<'a>(of: &'a Value, name: &str) -> Option<&'a Value> {
    let is_name = |value: &Value| value.as_bytes() == Some(name.as_bytes());
    match of {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| is_name(key)).map(|(_, value)| value),
        Value::Array(items) => {
            items.chunks_exact(2).find(|pair| is_name(&pair[0])).map(|pair| &pair[1])
        }
        _ => None,
    }
}

/// A host; the null of an unknown one is empty.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => Some(String::new()),
        value => Some(String::from_utf8_lossy(value.as_bytes()?).into_owned()),
    }
}

fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(number) => Some(*number),
        value => parse_u64(value.as_bytes()?).and_then(|number| i64::try_from(number).ok()),
    }
}

/// A connection that waits for each reply, for the questions before a run.
struct Connection {
    socket: Box<dyn Blocking>,
    parser: ReplyParser,
}

impl Connection {
    fn open(
        name: &str,
        addresses: &[SocketAddr],
        encryptor: Option<&Encryptor>,
    ) -> Result<Self, String> {
        let complain = |error: std::io::Error| format!("cannot connect to {name}: {error}");
        let socket = TcpStream::connect(addresses).map_err(complain)?;
        socket.set_read_timeout(Some(PATIENCE)).map_err(complain)?;
        let socket = blocking(socket, encryptor).map_err(complain)?;
        Ok(Self { socket, parser: ReplyParser::new(ReplyLimits::default()) })
    }

    /// Signs in as every other connection does.
    fn greet(&mut self, greeting: &Greeting) -> Result<(), String> {
        self.send(&greeting.bytes)?;
        for step in &greeting.steps {
            if let Value::Error(text) = self.reply()? {
                return Err(format!("{step}: {}", String::from_utf8_lossy(&text)));
            }
        }
        Ok(())
    }

    fn ask(&mut self, words: &[&str]) -> Result<Value, String> {
        let mut request = Vec::new();
        append_request(&mut request, words);
        self.send(&request)?;
        self.reply()
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|error| error.to_string())
    }

    fn reply(&mut self) -> Result<Value, String> {
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(value) = self.parser.next_reply().map_err(|error| error.to_string())? {
                return Ok(value);
            }
            match self.socket.read(&mut buffer).map_err(|error| error.to_string())? {
                0 => return Err("the server closed the connection".to_owned()),
                taken => self.parser.feed(&buffer[..taken]),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proto::value::{ReplyLimits, ReplyParser, Value};

    use super::{Endpoint, Redirection, SlotMap, ranges_of_shards, ranges_of_slots};

    fn value(text: &str) -> Value {
        let mut parser = ReplyParser::new(ReplyLimits::default());
        parser.feed(text.as_bytes());
        parser.next_reply().expect("valid").expect("complete")
    }

    #[test]
    fn redirections_are_told_from_other_errors() {
        let moved = Redirection::parse(b"MOVED 3999 127.0.0.1:6381").expect("a MOVED");
        assert!(!moved.is_ask && moved.slot == 3999);
        assert_eq!(moved.endpoint, Endpoint { host: "127.0.0.1".to_owned(), port: 6381 });
        let ask = Redirection::parse(b"ASK 0 ::1:7000").expect("an ASK");
        assert!(ask.is_ask && ask.endpoint.host == "::1");
        let same_host = Redirection::parse(b"MOVED 1 :7000").expect("no host");
        assert_eq!(same_host.endpoint.host, "");
        for other in ["ERR no", "MOVED", "MOVED 16384 a:1", "MOVED x a:1", "ASK 1 a", "ASK 1 a:x"] {
            assert_eq!(Redirection::parse(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn both_descriptions_give_the_same_map() {
        let slots = value(
            "*2\r\n*4\r\n:0\r\n:99\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n*2\r\n$1\r\nr\r\n:1\r\n\
             *3\r\n:100\r\n:16383\r\n*4\r\n$-1\r\n:7001\r\n$2\r\nid\r\n*0\r\n",
        );
        let shards = value(
            "*2\r\n*4\r\n+slots\r\n*2\r\n:0\r\n:99\r\n+nodes\r\n*2\r\n\
             *6\r\n+endpoint\r\n+r\r\n+port\r\n:1\r\n+role\r\n+replica\r\n\
             *6\r\n+endpoint\r\n+127.0.0.1\r\n+port\r\n:7000\r\n+role\r\n+master\r\n\
             %2\r\n+slots\r\n*2\r\n$3\r\n100\r\n$5\r\n16383\r\n+nodes\r\n*1\r\n\
             %3\r\n+endpoint\r\n_\r\n+port\r\n:7001\r\n+role\r\n+master\r\n",
        );
        let slots = ranges_of_slots(&slots).expect("CLUSTER SLOTS");
        assert_eq!(ranges_of_shards(&shards).as_ref(), Some(&slots));
        let map = SlotMap::new(&slots, "127.0.0.1", None).expect("two nodes");
        assert_eq!((map.owner(0), map.owner(99), map.owner(100), map.owner(16_383)), (0, 0, 1, 1));
        assert_eq!(map.addresses()[1].name(), "127.0.0.1:7001");
    }

    #[test]
    fn moved_is_remembered_and_ask_is_not() {
        let ranges = ranges_of_slots(&value(
            "*1\r\n*3\r\n:0\r\n:16383\r\n*2\r\n$9\r\n127.0.0.1\r\n:7000\r\n",
        ));
        let mut map = SlotMap::new(&ranges.expect("a range"), "", None).expect("a node");
        let ask = Redirection::parse(b"ASK 5 :7001").expect("an ASK");
        assert_eq!((map.follow(&ask, 0), map.owner(5)), (Ok(1), 0));
        let moved = Redirection::parse(b"MOVED 5 127.0.0.1:7001").expect("a MOVED");
        assert_eq!((map.follow(&moved, 0), map.owner(5)), (Ok(1), 1));
        assert_eq!((map.owner(4), map.addresses().len()), (0, 2));
    }
}
