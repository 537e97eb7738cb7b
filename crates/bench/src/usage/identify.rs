//! Which processes of this machine are the server: the server is asked, and not simply believed.
//! Invariant: a process id from a server counts only if the connection stays on this machine and
//! that process has run for as long as the server says it has; so neither a server elsewhere nor
//! one in a container can have an innocent process measured.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::process::Process;
use crate::engine::encrypted::{Blocking, Encryptor, blocking};
use crate::options::Options;

/// A server on this machine that takes longer goes unmeasured.
const PATIENCE: Duration = Duration::from_secs(1);
/// Longer replies than any of the questions here has.
const REPLY_MAX: usize = 4 << 20;

/// The processes of the server, or of all nodes of the cluster that it belongs to; empty if one of
/// them is not known.
pub(super) fn server_processes(options: &Options) -> Vec<u32> {
    let processes: Option<Vec<u32>> = match &options.unix_socket {
        Some(path) => unix_process(options, path).map(|process| vec![process]),
        None => match local_address(options) {
            Some(address) if options.cluster => nodes(options, address),
            Some(address) => tcp_process(options, address).map(|process| vec![process]),
            None => None,
        },
    };
    let mut processes = processes.unwrap_or_default();
    processes.sort_unstable();
    processes.dedup();
    processes
}

/// What the server calls itself, with its version; `None` of one that does not say.
pub(crate) fn server_name(options: &Options) -> Option<String> {
    match &options.unix_socket {
        Some(path) => name(options, || {
            let stream = UnixStream::connect(path).ok()?;
            stream.set_read_timeout(Some(PATIENCE)).ok()?;
            Some(stream)
        }),
        None => {
            let addresses = (&*options.server, options.port).to_socket_addrs().ok()?;
            let is_wanted = |address: &SocketAddr| {
                options.family.is_none_or(|family| family.holds(address.ip()))
            };
            addresses.filter(is_wanted).find_map(|address| name(options, || open(options, address)))
        }
    }
}

/// The fields by which servers say what they are, the most particular first.
const VERSIONS: &[(&str, &str)] = &[
    ("apus_version", "Apus"),
    ("valkey_version", "Valkey"),
    ("dragonfly_version", "Dragonfly"),
    ("garnet_version", "Garnet"),
    ("redis_version", "Redis"),
];

fn name<S: Read + Write>(options: &Options, open: impl Fn() -> Option<S>) -> Option<String> {
    let by_resp = open().and_then(|mut stream| {
        log_in(options, &mut stream)?;
        let information = ask(&mut stream, &[b"INFO", b"server"])?;
        VERSIONS.iter().find_map(|(field, name)| {
            let line = information.lines().find_map(|line| line.strip_prefix(field))?;
            Some(format!("{name} {}", line.strip_prefix(':')?.trim()))
        })
    });
    by_resp.or_else(|| {
        let mut stream = open()?;
        stream.write_all(b"version\r\n").ok()?;
        let reply =
            read_until(&mut stream, |reply| reply.ends_with(b"\r\n").then_some(reply.len()))?;
        let version = String::from_utf8(reply).ok()?;
        Some(format!("memcached {}", version.strip_prefix("VERSION ")?.trim()))
    })
}

fn local_address(options: &Options) -> Option<SocketAddr> {
    let addresses = (&*options.server, options.port).to_socket_addrs().ok()?;
    let is_wanted = |address: &SocketAddr| {
        address.ip().is_loopback() && options.family.is_none_or(|family| family.holds(address.ip()))
    };
    addresses.into_iter().filter(is_wanted).find(|address| connect(*address).is_some())
}

fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.set_write_timeout(Some(PATIENCE)).ok()?;
    Some(stream)
}

/// A connection as those of the run are.
fn open(options: &Options, address: SocketAddr) -> Option<Box<dyn Blocking>> {
    let encryptor = Encryptor::of(options).ok()?;
    blocking(connect(address)?, encryptor.as_ref()).ok()
}

fn tcp_process(options: &Options, address: SocketAddr) -> Option<u32> {
    process(options, || open(options, address))
}

fn unix_process(options: &Options, path: &Path) -> Option<u32> {
    process(options, || {
        let stream = UnixStream::connect(path).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.set_write_timeout(Some(PATIENCE)).ok()?;
        Some(stream)
    })
}

/// Each protocol has a connection of its own: a server may close one that it does not understand.
fn process<S: Read + Write>(options: &Options, open: impl Fn() -> Option<S>) -> Option<u32> {
    let by_resp = open().and_then(|mut stream| resp_process(options, &mut stream));
    by_resp.or_else(|| memcached_process(&mut open()?))
}

/// The processes of all nodes that `CLUSTER NODES` names, if each is on this machine.
fn nodes(options: &Options, address: SocketAddr) -> Option<Vec<u32>> {
    let nodes = {
        let mut stream = open(options, address)?;
        log_in(options, &mut stream)?;
        ask(&mut stream, &[b"CLUSTER", b"NODES"])?
    };
    let process = |line: &str| tcp_process(options, node_address(line, address)?);
    nodes.lines().map(process).collect()
}

/// The address in a line of `CLUSTER NODES`: `ID HOST:PORT@BUS_PORT ...`; a node that does not know
/// its own host is the one that was asked.
fn node_address(line: &str, asked: SocketAddr) -> Option<SocketAddr> {
    let endpoint = line.split(' ').nth(1)?;
    let endpoint = endpoint.split(['@', ',']).next()?;
    let (host, port) = endpoint.rsplit_once(':')?;
    let host = if host.is_empty() { asked.ip() } else { host.parse().ok()? };
    host.is_loopback().then_some(SocketAddr::new(host, port.parse().ok()?))
}

fn resp_process(options: &Options, stream: &mut (impl Read + Write)) -> Option<u32> {
    log_in(options, stream)?;
    let information = ask(stream, &[b"INFO", b"server"])?;
    let field = |name: &str| {
        let line = information.lines().find_map(|line| line.strip_prefix(name))?;
        line.strip_prefix(':')?.trim().parse::<u64>().ok()
    };
    believed(field("process_id")?, field("uptime_in_seconds")?)
}

fn memcached_process(stream: &mut (impl Read + Write)) -> Option<u32> {
    stream.write_all(b"stats\r\n").ok()?;
    let statistics =
        read_until(stream, |reply| reply.ends_with(b"END\r\n").then_some(reply.len()))?;
    let statistics = String::from_utf8(statistics).ok()?;
    let field = |name: &str| {
        let mut lines = statistics.lines().filter_map(|line| line.strip_prefix("STAT "));
        lines.find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    believed(field("pid ")?, field("uptime ")?)
}

fn believed(process: u64, uptime_seconds: u64) -> Option<u32> {
    let process = u32::try_from(process).ok()?;
    Process::find(process)?.has_run_for(uptime_seconds).then_some(process)
}

fn log_in(options: &Options, stream: &mut (impl Read + Write)) -> Option<()> {
    match &options.authenticate {
        None => Some(()),
        Some((None, password)) => ask(stream, &[b"AUTH", password.as_bytes()]).map(drop),
        Some((Some(user), password)) => {
            ask(stream, &[b"AUTH", user.as_bytes(), password.as_bytes()]).map(drop)
        }
    }
}

/// Sends a command; its reply if that is a string.
fn ask(stream: &mut (impl Read + Write), words: &[&[u8]]) -> Option<String> {
    let mut request = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        request.extend_from_slice(word);
        request.extend_from_slice(b"\r\n");
    }
    stream.write_all(&request).ok()?;
    let reply = read_until(stream, reply_length)?;
    let text = String::from_utf8(reply).ok()?;
    let (line, rest) = text.split_once("\r\n")?;
    match line.split_at_checked(1)? {
        ("+", text) => Some(text.to_owned()),
        ("$", _) => rest.strip_suffix("\r\n").map(str::to_owned),
        _ => None,
    }
}

/// How long the reply is that these bytes begin, once that can be told.
fn reply_length(bytes: &[u8]) -> Option<usize> {
    let line = bytes.windows(2).position(|pair| pair == b"\r\n")? + 2;
    let length = match bytes[0] {
        b'$' => std::str::from_utf8(&bytes[1..line - 2])
            .ok()?
            .parse::<usize>()
            .map_or(Some(0), |size| size.checked_add(2))?,
        _ => 0,
    };
    line.checked_add(length)
}

/// Reads until `length` tells where the reply ends and it is there.
fn read_until(stream: &mut impl Read, length: impl Fn(&[u8]) -> Option<usize>) -> Option<Vec<u8>> {
    let (mut reply, mut chunk) = (Vec::new(), [0; 4096]);
    while reply.len() < REPLY_MAX {
        if let Some(length) = length(&reply).filter(|length| reply.len() >= *length) {
            reply.truncate(length);
            return Some(reply);
        }
        match stream.read(&mut chunk) {
            Ok(0) | Err(_) => return None,
            Ok(count) => reply.extend_from_slice(&chunk[..count]),
        }
    }
    None
}

#[cfg(test)]
mod tests;
