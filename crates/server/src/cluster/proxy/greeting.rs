//! What a link says first: who asks, in which protocol, of which database.
//!
//! Invariant: no request of a client goes by a link before all of that is answered, and none by a
//! link that the other node may not know as one.

use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice, Result as IoResult};

use base::io_error_text::strerror;
use config::settings::{MASTERAUTH, MASTERUSER};
use engine::session::PROXY_LIBRARY;
use proto::Resp;
use proto::args::encode_command;
use proto::value::{ReplyLimits, ReplyParser, Value};

use super::client_identity::ClientIdentity;
use super::pool::LinkKey;
use crate::cluster::start::ClusterContext;
use crate::net::connection::Stream;
use crate::net::outgoing;

/// An answer to a greeting is no greater.
const LIMITS: ReplyLimits = ReplyLimits { bulk: 1 << 16, elements: 1 << 10, depth: 8 };

/// So much is read at a time.
const CHUNK: usize = 4096;

/// So much of this node's name stands in that of its links.
const NAME_DIGITS: usize = 8;

/// A word of the greeting, and whether the link is good for nothing without it.
struct Word {
    request: Vec<u8>,
    weight: Weight,
}

/// What an error in answer to a word means.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Weight {
    /// The link is of no use.
    Needed,
    /// Nothing, if the other node does not know the subcommand; else as above.
    NeededIfKnown,
    /// Nothing.
    Wanted,
}

/// Connects to a node and introduces this one; the link, and what it is called there.
pub(super) async fn connect(
    context: ClusterContext,
    key: LinkKey,
) -> Result<(Stream, Option<ClientIdentity>), String> {
    let ClusterContext { server, node, .. } = context;
    let address = node.link_address(key.node, key.is_encrypted);
    let address = address.ok_or_else(|| match key.is_encrypted {
        true => "its address or its port for TLS is not known".to_owned(),
        false => "its address is not known".to_owned(),
    })?;
    let socket = outgoing::connect(&server.config, address).await;
    let socket = socket.map_err(|error| strerror(&error))?;
    // Without this option the link is slower, and no less right.
    let _ = socket.set_nodelay(true);
    let mut stream = match key.is_encrypted {
        true => Stream::Tls(server.tls.connect(socket).await.map_err(|error| strerror(&error))?),
        false => Stream::Tcp(socket),
    };
    let words = words(context, key);
    let request: Vec<u8> = words.iter().flat_map(|word| &word.request).copied().collect();
    write_all(&mut stream, &request).await.map_err(|error| strerror(&error))?;
    let mut parser = ReplyParser::new(LIMITS);
    let mut identity = None;
    for word in &words {
        match read(&mut stream, &mut parser).await? {
            Value::Error(line) if is_fatal(word.weight, &line) => {
                return Err(String::from_utf8_lossy(&line).into_owned());
            }
            value => identity = value.as_bytes().and_then(ClientIdentity::parse).or(identity),
        }
    }
    Ok((stream, identity))
}

fn words(context: ClusterContext, key: LinkKey) -> Vec<Word> {
    let ClusterContext { server, node, .. } = context;
    let (user, password) = (server.config.get(MASTERUSER), server.config.get(MASTERAUTH));
    let mut words = Vec::new();
    let mut add = |weight: Weight, arguments: &[&[u8]]| {
        let mut request = Vec::new();
        encode_command(arguments.iter().copied(), &mut request);
        words.push(Word { request, weight });
    };
    match (&*user, &*password) {
        (_, []) => {}
        ([], password) => add(Weight::Needed, &[b"AUTH", password]),
        (user, password) => add(Weight::Needed, &[b"AUTH", user, password]),
    }
    if key.resp == Resp::Three {
        add(Weight::Needed, &[b"HELLO", b"3"]);
    }
    let name = node.with_engine(|cluster| cluster.my_id()).map(|id| {
        let digits = id.as_str().get(..NAME_DIGITS).unwrap_or_default();
        format!("cluster-proxy-{digits}")
    });
    add(Weight::Wanted, &[b"CLIENT", b"SETNAME", name.unwrap_or_default().as_bytes()]);
    // A node that would send on what comes by this link has to know that it may not.
    add(Weight::NeededIfKnown, &[b"CLIENT", b"SETINFO", b"LIB-NAME", PROXY_LIBRARY]);
    if key.database != 0 {
        add(Weight::Needed, &[b"SELECT", key.database.to_string().as_bytes()]);
    }
    add(Weight::Wanted, &[b"CLIENT", b"INFO"]);
    words
}

fn is_fatal(weight: Weight, line: &[u8]) -> bool {
    match weight {
        Weight::Needed => true,
        Weight::NeededIfKnown => !String::from_utf8_lossy(line).contains("ubcommand"),
        // Without a login nothing else will be answered, either.
        Weight::Wanted => line.starts_with(b"NOAUTH"),
    }
}

async fn write_all(stream: &mut Stream, mut bytes: &[u8]) -> IoResult<()> {
    while !bytes.is_empty() {
        let slices = [IoSlice::new(bytes)];
        match poll_fn(|cx| stream.poll_write(cx, &slices)).await? {
            0 => return Err(ErrorKind::WriteZero.into()),
            written => bytes = &bytes[written..],
        }
    }
    Ok(())
}

async fn read(stream: &mut Stream, parser: &mut ReplyParser) -> Result<Value, String> {
    loop {
        if let Some(value) = parser.next_reply().map_err(|error| error.to_string())? {
            return Ok(value);
        }
        let mut chunk = Vec::with_capacity(CHUNK);
        match poll_fn(|cx| stream.poll_read_more(cx, &mut chunk)).await {
            Ok(0) => return Err("it closed the connection".to_owned()),
            Ok(_) => parser.feed(&chunk),
            Err(error) => return Err(strerror(&error)),
        }
    }
}
