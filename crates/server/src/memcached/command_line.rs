//! Memcached's own command line, turned into our directives.
//!
//! Invariants: every option of memcached 1.6 either does what it does there, or leaves one line
//! that says why not; what would leave a server open that was to be closed is refused. Passwords
//! stand in no process list: the server reads their file itself.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use base::number::parse_u64;

use super::tls_options::TlsOptions;
use super::users;

/// What a command line of memcached asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// To serve, with these arguments of ours.
    Connection {
        /// Directives as on our own command line.
        arguments: Vec<OsString>,
        /// Whose rights the process is to have, if it has those of root.
        user: Option<Vec<u8>>,
        /// What is done otherwise, a line each.
        notices: Vec<String>,
    },
    /// To say which version it is.
    Version,
    /// To say how it is called.
    Help,
}

/// The port of memcached.
const PORT: &str = "11211";

/// Its memory, in megabytes.
const MEGABYTES: u64 = 64;

/// The least it can do with, of which the process takes a part.
pub(super) const MEGABYTES_MIN: u64 = 8;

/// How many clients it takes.
const CLIENTS: &str = "1024";

/// The permissions of its Unix socket.
const UNIX_MASK: &str = "700";

/// The one of the extended options that steers something here, before its number.
const IDLE_TIMEOUT: &[u8] = b"idle_timeout=";

/// The smallest and the largest `-I`.
const ITEM_SIZES: std::ops::RangeInclusive<u64> = 1024..=1 << 30;

/// An option by its letter and its long name, whether an argument belongs to it, and what it does.
struct Flag(u8, &'static str, bool, &'static str);

/// Every option that 1.6 lists.
const FLAGS: &[Flag] = &[
    Flag(b'A', "enable-shutdown", false, "clients may end the server"),
    Flag(b'a', "unix-mask", true, "permissions of the Unix socket, in octal (700)"),
    Flag(b'B', "protocol", true, "auto, ascii or binary"),
    Flag(b'b', "listen-backlog", true, "backlog of the listening socket"),
    Flag(b'C', "disable-cas", false, "no effect: CAS values cost nothing"),
    Flag(b'c', "conn-limit", true, "greatest number of clients (1024)"),
    Flag(b'D', "delimiter", true, "figures by prefix go by this byte (:), from the start"),
    Flag(b'd', "daemon", false, "go to the background"),
    Flag(b'e', "memory-file", true, "no effect: see the directives save and appendonly"),
    Flag(b'F', "disable-flush-all", false, "flush_all, which empties the database, is refused"),
    Flag(b'f', "slab-growth-factor", true, "no effect: there are no slabs"),
    Flag(b'h', "help", false, "this text"),
    Flag(b'I', "max-item-size", true, "largest value: bytes, or with k or m behind (1m)"),
    Flag(b'i', "license", false, "the licence: Apache-2.0"),
    Flag(b'k', "lock-memory", false, "no effect"),
    Flag(b'L', "enable-largepages", false, "no effect"),
    Flag(b'l', "listen", true, "addresses to listen on, with commas between them"),
    Flag(b'M', "disable-evictions", false, "an error rather than eviction when memory is full"),
    Flag(b'm', "memory-limit", true, "megabytes of memory for all there is (64, at least 8)"),
    Flag(b'N', "napi-ids", true, "no effect"),
    Flag(b'n', "slab-min-size", true, "no effect: there are no slabs"),
    Flag(b'o', "extended", true, "idle_timeout=SECONDS, ssl_NAME=VALUE; the rest has no effect"),
    Flag(b'P', "pidfile", true, "file for the process id"),
    Flag(b'p', "port", true, "TCP port (11211), -1 for any"),
    Flag(b'R', "max-reqs-per-event", true, "no effect"),
    Flag(b'r', "enable-coredumps", false, "no effect"),
    Flag(b'S', "enable-sasl", false, "authentication by SASL; see -Y"),
    Flag(b's', "unix-socket", true, "Unix socket instead of ports"),
    Flag(b't', "threads", true, "threads (one per core)"),
    Flag(b'U', "udp-port", true, "UDP port (none), -1 for any; without -p of TCP, too"),
    Flag(b'u', "user", true, "whose rights to have instead of those of root"),
    Flag(b'V', "version", false, "the version"),
    Flag(b'v', "verbose", false, "more in the log; -vv: most"),
    Flag(b'W', "disable-watch", false, "watch is refused"),
    Flag(b'X', "disable-dumping", false, "keys cannot be listed"),
    Flag(b'Y', "auth-file", true, "file with a line user:password"),
    Flag(b'Z', "enable-ssl", false, "clients speak TLS; see -o ssl_chain_cert and its kin"),
];

/// Reads the arguments (without the program's name). `password_file` is what SASL goes by: the
/// file that `MEMCACHED_SASL_PWDB` names, if it is set.
pub(crate) fn read(
    arguments: &[OsString],
    password_file: Option<&Path>,
) -> Result<Invocation, String> {
    let words: Vec<&[u8]> = arguments.iter().map(|word| word.as_bytes()).collect();
    let mut draft = Draft::default();
    let mut rest = words.as_slice();
    while let [word, more @ ..] = rest {
        rest = more;
        match *word {
            b"--" => break,
            [b'-', b'-', name @ ..] => draft.take_long(name, &mut rest)?,
            [b'-', letters @ ..] if !letters.is_empty() => draft.take_short(letters, &mut rest)?,
            _ => return Err(format!("memcached: '{}' is no option", text(word))),
        }
        if let Some(invocation) = draft.says.take() {
            return Ok(invocation);
        }
    }
    draft.finish(password_file)
}

/// The text of `-h`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Usage: apus memcached [options]\n\
         Serves clients of memcached, with its options. What they store lies in database 0, which\n\
         clients of Redis see if they have a port, and which flush_all empties for them, too.\n\n",
    );
    for Flag(letter, name, takes, does) in FLAGS {
        let argument = if *takes { "=ARGUMENT" } else { "" };
        let names = format!("-{}, --{name}{argument}", char::from(*letter));
        text.push_str(&format!("  {names:<40} {does}\n"));
    }
    text + EXAMPLES
}

/// What the help ends with.
const EXAMPLES: &str = "
Examples:
       apus memcached -p 11211 -m 1024 -l 127.0.0.1
       apus memcached -d -u apus -c 4096 -P /run/apus/memcached.pid
";

/// The options that were read.
#[derive(Default)]
struct Draft {
    directives: Vec<(&'static str, Vec<Vec<u8>>)>,
    notices: Vec<String>,
    says: Option<Invocation>,
    port: Option<Vec<u8>>,
    udp_port: Option<Vec<u8>>,
    unix_socket: Option<Vec<u8>>,
    unix_mask: Option<Vec<u8>>,
    addresses: Vec<Vec<u8>>,
    verbosity: usize,
    megabytes: Option<u64>,
    item_size: Option<u64>,
    keeps_all: bool,
    clients: Option<Vec<u8>>,
    wants_sasl: bool,
    credentials: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    tls: TlsOptions,
}

impl Draft {
    /// `--name=argument`, or `--name` and perhaps the next word.
    fn take_long(&mut self, word: &[u8], rest: &mut &[&[u8]]) -> Result<(), String> {
        let (name, attached) = match word.iter().position(|byte| *byte == b'=') {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let flag = FLAGS.iter().find(|flag| flag.1.as_bytes() == name);
        let flag = flag.ok_or_else(|| format!("memcached: --{} is not known", text(name)))?;
        match (flag.2, attached) {
            (false, Some(_)) => Err(format!("memcached: --{} takes no argument", flag.1)),
            (false, None) => self.apply(flag.0, b""),
            (true, Some(argument)) => self.apply(flag.0, argument),
            (true, None) => self.apply(flag.0, next(flag, rest)?),
        }
    }

    /// Letters behind one dash, the last of which may have its argument right behind it.
    fn take_short(&mut self, letters: &[u8], rest: &mut &[&[u8]]) -> Result<(), String> {
        for (index, letter) in letters.iter().enumerate() {
            let flag = FLAGS.iter().find(|flag| flag.0 == *letter);
            let flag =
                flag.ok_or_else(|| format!("memcached: -{} is not known", text(&[*letter])))?;
            if !flag.2 {
                self.apply(flag.0, b"")?;
                continue;
            }
            let attached = &letters[index + 1..];
            let argument = if attached.is_empty() { next(flag, rest)? } else { attached };
            return self.apply(flag.0, argument);
        }
        Ok(())
    }

    fn apply(&mut self, letter: u8, argument: &[u8]) -> Result<(), String> {
        match letter {
            b'p' => self.port = Some(argument.to_vec()),
            b'U' => self.udp_port = Some(argument.to_vec()),
            b's' => self.unix_socket = Some(argument.to_vec()),
            b'a' => self.unix_mask = Some(argument.to_vec()),
            b'l' => self.listen(argument)?,
            b'c' => self.clients = Some(argument.to_vec()),
            b't' if number(letter, argument)? == 0 => {
                return Err(
                    "memcached: -t: the number of threads must be greater than 0".to_owned()
                );
            }
            b't' => self.set("worker-threads", argument),
            // The unit may be told, as memcached reads no further than the number.
            b'm' => {
                let digits = argument.strip_suffix(b"m").or(argument.strip_suffix(b"M"));
                self.megabytes = Some(number(letter, digits.unwrap_or(argument))?);
            }
            b'M' => self.keeps_all = true,
            b'I' => {
                let size = item_size(argument)?;
                self.item_size = Some(size);
                self.set("memcached-item-size-max", size.to_string().as_bytes());
            }
            b'D' => {
                let delimiter = argument.get(..1).ok_or("memcached: -D wants a delimiter")?;
                self.set("memcached-prefix-delimiter", delimiter);
            }
            b'b' => self.set("tcp-backlog", argument),
            b'B' => self.set("memcached-protocol", protocol(argument)?),
            b'A' => self.set("memcached-shutdown", b"yes"),
            b'F' => self.set("memcached-flush", b"no"),
            b'X' => self.set("memcached-dump", b"no"),
            b'W' => self.set("memcached-watch", b"no"),
            b'o' => self.extend(argument)?,
            b'Z' => self.tls.is_on = true,
            b'd' => self.set("daemonize", b"yes"),
            b'P' => self.set("pidfile", argument),
            b'v' => self.verbosity += 1,
            b'S' => self.wants_sasl = true,
            b'Y' => self.credentials = Some(argument.to_vec()),
            b'u' => self.user = Some(argument.to_vec()),
            b'V' => self.says = Some(Invocation::Version),
            b'h' | b'i' => self.says = Some(Invocation::Help),
            other => self.notices.push(notice(other, argument)),
        }
        Ok(())
    }

    fn set(&mut self, directive: &'static str, value: &[u8]) {
        self.directives.push((directive, vec![value.to_vec()]));
    }

    /// `-o NAME,NAME=VALUE`: what has a meaning here is set, the rest leaves a line.
    fn extend(&mut self, names: &[u8]) -> Result<(), String> {
        let mut others = Vec::new();
        for name in names.split(|byte| *byte == b',') {
            if let Some(seconds) = name.strip_prefix(IDLE_TIMEOUT) {
                self.set("timeout", seconds);
            } else if !self.tls.take(name)? {
                others.push(name);
            }
        }
        if !others.is_empty() {
            self.notices.push(notice(b'o', &others.join(&b',')));
        }
        Ok(())
    }

    /// `-l ADDRESS,ADDRESS:PORT`: all of them have one port.
    fn listen(&mut self, addresses: &[u8]) -> Result<(), String> {
        for address in addresses.split(|byte| *byte == b',').filter(|part| !part.is_empty()) {
            if address.starts_with(b"notls:") {
                return Err(format!(
                    "memcached: -l {}: with -Z all addresses are encrypted: use -s for those who \
                     need no TLS",
                    text(address)
                ));
            }
            let (host, port) = split_port(address);
            if let Some(port) = port {
                if self.port.as_deref().is_some_and(|other| other != port) {
                    return Err("memcached: -l and -p: all addresses have one port".to_owned());
                }
                self.port = Some(port.to_vec());
            }
            self.addresses.push(host.to_vec());
        }
        Ok(())
    }

    fn finish(mut self, password_file: Option<&Path>) -> Result<Invocation, String> {
        self.authenticate(password_file)?;
        if self.tls.is_on && self.udp_port.as_deref().is_some_and(opens) {
            return Err("memcached: -Z and -U: what comes by UDP is not encrypted".to_owned());
        }
        for (name, value) in std::mem::take(&mut self.tls).directives()? {
            self.set(name, &value);
        }
        self.bind();
        // As in memcached, a Unix socket stands in the place of the ports.
        let (port, udp_port) = (self.port.take(), self.udp_port.take());
        let port = match (&self.unix_socket, port) {
            (Some(_), _) => b"0".to_vec(),
            (None, Some(port)) => port,
            // A port for UDP alone is the port for TCP, too.
            (None, None) => {
                udp_port.clone().filter(|port| opens(port)).unwrap_or_else(|| PORT.into())
            }
        };
        self.set("memcached-port", &port);
        if let Some(port) = udp_port {
            self.set("memcached-udp-port", &port);
        }
        if let Some(path) = self.unix_socket.take() {
            self.set("memcached-unixsocket", &path);
            let mask = self.unix_mask.take().unwrap_or_else(|| UNIX_MASK.into());
            self.set("memcached-unixsocketperm", &mask);
        }
        let mut megabytes = self.megabytes.unwrap_or(MEGABYTES);
        if megabytes < MEGABYTES_MIN {
            // The process itself counts, and would leave no room for an item.
            let line =
                format!("memcached: -m {megabytes} is too little: it has {MEGABYTES_MIN} MB");
            self.notices.push(line);
            megabytes = MEGABYTES_MIN;
        }
        if let Some(size) = self.item_size.filter(|size| *size > (megabytes << 20) / 2) {
            return Err(format!("memcached: -I {size} is more than half of the memory (-m)"));
        }
        self.set("maxmemory", format!("{megabytes}mb").as_bytes());
        let policy: &[u8] = if self.keeps_all { b"noeviction" } else { b"allkeys-lru" };
        self.set("maxmemory-policy", policy);
        let clients = self.clients.take().unwrap_or_else(|| CLIENTS.into());
        self.set("maxclients", &clients);
        match self.verbosity {
            0 => {}
            1 => self.set("loglevel", b"verbose"),
            _ => self.set("loglevel", b"debug"),
        }
        // Nothing of Redis: neither its port nor its files.
        let ours = [("port", &b"0"[..]), ("save", b""), ("appendonly", b"no")];
        let ours = ours.map(|(name, value)| (name, vec![value.to_vec()]));
        let mut arguments = Vec::new();
        for (name, values) in ours.into_iter().chain(self.directives) {
            arguments.push(OsString::from(format!("--{name}")));
            arguments.extend(values.into_iter().map(OsString::from_vec));
        }
        Ok(Invocation::Connection { arguments, user: self.user, notices: self.notices })
    }

    /// An operator that names the addresses has decided which clients may come; otherwise those of
    /// other machines need a password.
    fn bind(&mut self) {
        let addresses = std::mem::take(&mut self.addresses);
        if addresses.is_empty() {
            let has_password =
                self.directives.iter().any(|(name, _)| *name == "memcached-auth-file");
            if !has_password && self.unix_socket.is_none() {
                let line = "memcached: clients of other machines are refused: name the addresses \
                            to listen on by -l, or a password by -Y";
                self.notices.push(line.to_owned());
            }
            return;
        }
        self.directives.push(("bind", addresses));
        self.set("protected-mode", b"no");
    }

    /// `-Y FILE` and `-S`: users in the file may come in.
    fn authenticate(&mut self, password_file: Option<&Path>) -> Result<(), String> {
        let named = self.credentials.take();
        let file = match &named {
            Some(path) => Path::new(OsStr::from_bytes(path)),
            None if !self.wants_sasl => return Ok(()),
            None => password_file.ok_or(
                "memcached: -S wants a file of user:password lines, named by -Y or by the \
                 variable MEMCACHED_SASL_PWDB",
            )?,
        };
        // The server reads it again; here it is to say at once what is wrong.
        users::read_file(file)?;
        self.set("memcached-auth-file", file.as_os_str().as_bytes());
        Ok(())
    }
}

/// The argument of a flag, which is the next word.
fn next<'w>(flag: &Flag, rest: &mut &[&'w [u8]]) -> Result<&'w [u8], String> {
    let [argument, more @ ..] = *rest else {
        let letter = char::from(flag.0);
        return Err(format!("memcached: -{letter} (--{}) wants an argument", flag.1));
    };
    *rest = more;
    Ok(argument)
}

/// Why an option has no effect here.
fn notice(letter: u8, argument: &[u8]) -> String {
    let why = match letter {
        b'C' => "items have CAS values in any case, at no cost where nobody asks for them",
        b'e' => "items are kept over a restart by the directives save and appendonly",
        b'f' | b'n' => "items lie in blocks of their own size, eight bytes apart",
        b'k' => "memory is locked by whoever starts the process",
        b'L' => "the kernel gives large pages by itself",
        b'N' => "connections are shared out by the number of clients",
        b'R' => "a client yields after 64 requests or 200 microseconds",
        b'r' => "the size of core files is set by whoever starts the process",
        _ => "it has no meaning here",
    };
    let argument = if argument.is_empty() { String::new() } else { format!(" {}", text(argument)) };
    format!("memcached: -{}{argument} has no effect: {why}", char::from(letter))
}

/// A port behind an address; one of IPv6 that has a port stands in brackets.
fn split_port(address: &[u8]) -> (&[u8], Option<&[u8]>) {
    if let Some(rest) = address.strip_prefix(b"[")
        && let Some(end) = rest.iter().position(|byte| *byte == b']')
    {
        return (&rest[..end], rest[end + 1..].strip_prefix(b":"));
    }
    let mut colons = address.iter().enumerate().filter(|(_, byte)| **byte == b':');
    match (colons.next(), colons.next()) {
        (Some((at, _)), None) => (&address[..at], Some(&address[at + 1..])),
        _ => (address, None),
    }
}

/// Whether a port is one, rather than none.
fn opens(port: &[u8]) -> bool {
    parse_u64(port) != Some(0)
}

fn protocol(argument: &[u8]) -> Result<&'static [u8], String> {
    match argument {
        b"auto" | b"negotiating" => Ok(b"auto"),
        b"ascii" => Ok(b"text"),
        b"binary" => Ok(b"binary"),
        other => Err(format!("memcached: -B is auto, ascii or binary, not '{}'", text(other))),
    }
}

/// `-I SIZE`, in bytes or with a `k` or an `m` behind it.
fn item_size(argument: &[u8]) -> Result<u64, String> {
    let (digits, unit) = match argument {
        [digits @ .., b'k' | b'K'] => (digits, 1 << 10),
        [digits @ .., b'm' | b'M'] => (digits, 1 << 20),
        digits => (digits, 1),
    };
    let size = parse_u64(digits).and_then(|size| size.checked_mul(unit));
    size.filter(|size| ITEM_SIZES.contains(size))
        .ok_or_else(|| format!("memcached: -I is from 1k to 1024m, not '{}'", text(argument)))
}

fn number(letter: u8, argument: &[u8]) -> Result<u64, String> {
    let found = parse_u64(argument).filter(|number| *number <= u64::from(u32::MAX));
    let letter = char::from(letter);
    found.ok_or_else(|| format!("memcached: -{letter} wants a number, not '{}'", text(argument)))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::path::Path;

    use super::{FLAGS, Invocation, read};

    fn invoke(line: &str) -> Result<Invocation, String> {
        let words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
        read(&words, None)
    }

    /// The directives as lines, and the notices.
    fn served(line: &str) -> (Vec<String>, Vec<String>) {
        match invoke(line) {
            Ok(Invocation::Connection { arguments, notices, .. }) => {
                let mut lines: Vec<String> = Vec::new();
                for word in arguments {
                    let word = word.into_string().expect("it was text");
                    match lines.last_mut() {
                        Some(line) if !word.starts_with("--") => *line += &format!(" {word}"),
                        _ => lines.push(word),
                    }
                }
                (lines, notices)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    fn says(line: &str, directive: &str) {
        let (directives, _) = served(line);
        assert!(directives.iter().any(|said| said == directive), "{line}: {directives:?}");
    }

    #[test]
    fn a_server_without_options_is_a_memcached_with_its_defaults() {
        let (directives, notices) = served("");
        let expected = [
            "--port 0",
            "--save ",
            "--appendonly no",
            "--memcached-port 11211",
            "--maxmemory 64mb",
            "--maxmemory-policy allkeys-lru",
            "--maxclients 1024",
        ];
        assert_eq!(directives, expected);
        assert_eq!(notices.len(), 1, "{notices:?}");
    }

    #[test]
    fn a_delimiter_is_not_empty() {
        assert!(read(&["-D", ""].map(OsString::from), None).is_err());
    }

    #[test]
    fn options_are_directives() {
        let table = [
            ("-p 1000", "--memcached-port 1000"),
            ("-p1000", "--memcached-port 1000"),
            ("-p -1", "--memcached-port -1"),
            ("-U -1", "--memcached-udp-port -1"),
            ("-U 1000", "--memcached-port 1000"),
            ("-U -1", "--memcached-port -1"),
            ("-U 0", "--memcached-port 11211"),
            ("-U 1000 -p 0", "--memcached-port 0"),
            ("-U 1000 -s /run/m.sock", "--memcached-port 0"),
            ("-m 2", "--maxmemory 8mb"),
            ("--port=1000", "--memcached-port 1000"),
            ("--port 1000", "--memcached-port 1000"),
            ("-vvp1000", "--memcached-port 1000"),
            ("-vvp1000", "--loglevel debug"),
            ("-v", "--loglevel verbose"),
            ("-U 11211", "--memcached-udp-port 11211"),
            ("-s /run/m.sock", "--memcached-unixsocket /run/m.sock"),
            ("-s /run/m.sock -p 5", "--memcached-port 0"),
            ("-s /run/m.sock", "--memcached-unixsocketperm 700"),
            ("-s /run/m.sock -a 0770", "--memcached-unixsocketperm 0770"),
            ("-o modern,idle_timeout=60", "--timeout 60"),
            ("-W", "--memcached-watch no"),
            ("-l 127.0.0.1,::1 -l 10.0.0.1", "--bind 127.0.0.1 ::1 10.0.0.1"),
            ("-l 127.0.0.1:1000", "--memcached-port 1000"),
            ("-l [::1]:1000", "--bind ::1"),
            ("-l 127.0.0.1", "--protected-mode no"),
            ("-m 1024", "--maxmemory 1024mb"),
            ("-m 100m", "--maxmemory 100mb"),
            ("-M", "--maxmemory-policy noeviction"),
            ("-c 50000", "--maxclients 50000"),
            ("-t 8", "--worker-threads 8"),
            ("-I 2m", "--memcached-item-size-max 2097152"),
            ("-I 4096", "--memcached-item-size-max 4096"),
            ("-I 32m", "--memcached-item-size-max 33554432"),
            ("-I 512m -m 1024", "--memcached-item-size-max 536870912"),
            ("-b 512", "--tcp-backlog 512"),
            ("-B ascii", "--memcached-protocol text"),
            ("-A", "--memcached-shutdown yes"),
            ("-F", "--memcached-flush no"),
            ("-X", "--memcached-dump no"),
            ("-d -P /run/m.pid", "--daemonize yes"),
            ("-d -P /run/m.pid", "--pidfile /run/m.pid"),
        ];
        for (line, directive) in table {
            says(line, directive);
        }
        assert_eq!(invoke("-V"), Ok(Invocation::Version));
        assert_eq!(invoke("-vh"), Ok(Invocation::Help));
    }

    #[test]
    fn what_has_no_meaning_leaves_a_line_each() {
        let ignored = "-C -R 20 -f 1.25 -n 48 -L -k -r -e /f -N 4 -o modern";
        let (_, notices) = served(&format!("-l 127.0.0.1 {ignored}"));
        assert_eq!(notices.len(), ignored.matches('-').count(), "{notices:?}");
        assert!(notices.iter().all(|line| !line.contains("no meaning") || line.contains("-o")));
    }

    #[test]
    fn a_server_that_names_its_addresses_gets_no_notice_of_refusals() {
        for line in ["-s /run/m.sock", "-l 127.0.0.1", "-l 10.0.0.1 -s /run/m.sock"] {
            let (_, notices) = served(line);
            assert!(notices.is_empty(), "{line}: {notices:?}");
        }
    }

    #[test]
    fn the_last_user_is_the_one() {
        let user = |line: &str| match invoke(line) {
            Ok(Invocation::Connection { user, .. }) => user,
            other => panic!("{line}: {other:?}"),
        };
        assert_eq!(user("-u root --user=nobody").as_deref(), Some(&b"nobody"[..]));
        assert_eq!(user("-v"), None);
    }

    #[test]
    fn every_option_is_understood() {
        for flag in FLAGS {
            let argument = match flag.0 {
                b'B' => "ascii",
                b'Y' => continue,
                b'S' => continue,
                b'Z' => continue,
                _ if flag.2 => "2048",
                _ => "",
            };
            let letter = char::from(flag.0);
            assert!(invoke(&format!("-{letter} {argument}")).is_ok(), "-{letter}");
            assert!(invoke(&format!("--{} {argument}", flag.1)).is_ok(), "--{}", flag.1);
        }
    }

    #[test]
    fn faults_are_named() {
        let table = [
            ("stray", "'stray' is no option"),
            ("-Q", "-Q is not known"),
            ("--quick", "--quick is not known"),
            ("-Z", "-Z wants a certificate"),
            ("-p", "-p (--port) wants an argument"),
            ("--daemon=yes", "--daemon takes no argument"),
            ("-m lots", "-m wants a number"),
            ("-t 0", "the number of threads must be greater than 0"),
            ("-m 1g", "-m wants a number"),
            ("-I 10", "-I is from 1k to 1024m"),
            ("-I 2g", "-I is from 1k to 1024m"),
            ("-I 33m", "-I 34603008 is more than half of the memory (-m)"),
            ("-m 512 -I 262145k", "more than half of the memory"),
            ("-B morse", "-B is auto, ascii or binary"),
            ("-l 127.0.0.1:1,127.0.0.2:2", "all addresses have one port"),
            ("-S", "-S wants a file"),
            ("-Y /nowhere/at/all", "cannot read '/nowhere/at/all'"),
        ];
        for (line, expected) in table {
            let error = invoke(line).expect_err("refused");
            assert!(error.contains(expected), "{line}: {error}");
        }
    }

    #[test]
    fn users_stand_in_a_file_which_is_right() {
        let folder = tempfile::tempdir().expect("a folder");
        let read_file = |content: &str, by_option: bool| {
            let file = folder.path().join("users");
            std::fs::write(&file, content).expect("a file");
            let words = match by_option {
                true => vec![OsString::from("-Y"), file.clone().into_os_string()],
                false => vec![OsString::from("-S")],
            };
            read(&words, (!by_option).then_some(Path::new(&file)))
        };
        for by_option in [true, false] {
            let invocation = read_file("me:secret\nyou:other\n", by_option);
            let Ok(Invocation::Connection { arguments, notices, .. }) = invocation else {
                panic!("{invocation:?}")
            };
            let file = folder.path().join("users");
            let named = |pair: &[OsString]| pair[0] == "--memcached-auth-file" && pair[1] == *file;
            assert!(arguments.windows(2).any(named), "{arguments:?}");
            assert!(notices.is_empty(), "{notices:?}");
        }
        for content in ["", "nobody", ":secret", "me:", "me::"] {
            assert!(read_file(content, true).is_err(), "{content:?} leaves nothing open");
        }
    }
}
