//! Users of memcached's clients: a file of lines `user:password`, read again at SIGHUP.
//!
//! Invariants: a file that is not as it should be changes nothing: the server does not start with
//! it, and one that runs keeps the users it has; a client that is let in has the rights of the
//! default user.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, RwLock};

use config::settings::MEMCACHED_AUTH_FILE;
use engine::admission::password::same_digest;
use engine::runtime::log::{log_notice, log_warning};

use super::MemcachedServer;

/// Names and passwords.
type Pairs = Vec<(Box<[u8]>, Box<[u8]>)>;

/// The users that there are.
#[derive(Default)]
pub(crate) struct Users(RwLock<Arc<Pairs>>);

impl Users {
    /// Reads the file that the configuration names, if it names one.
    pub(crate) fn load(&self, server: &MemcachedServer) -> Result<(), String> {
        if is_configured(server) {
            let path = server.config.get(MEMCACHED_AUTH_FILE);
            let pairs = read_file(Path::new(OsStr::from_bytes(&path)))?;
            *self.0.write().expect("no critical section here panics") = Arc::new(pairs);
        }
        Ok(())
    }

    /// As `load`, of a server that runs.
    pub(crate) fn reload(&self, server: &MemcachedServer) {
        match self.load(server) {
            Ok(()) if is_configured(server) => {
                log_notice!(server.log, "The users of memcached's clients were read again");
            }
            Ok(()) => {}
            Err(why) => log_warning!(server.log, "{why}: the users stay as they are"),
        }
    }

    /// Whether this is a user with this password. However many users there are, it takes as long
    /// whichever it is.
    pub(super) fn admits(&self, user: &[u8], password: &[u8]) -> bool {
        let pairs = Arc::clone(&self.0.read().expect("no critical section here panics"));
        pairs.iter().fold(false, |is_right, (name, secret)| {
            is_right | (same_digest(name, user) & same_digest(secret, password))
        })
    }
}

/// Whether users stand in a file.
pub(crate) fn is_configured(server: &MemcachedServer) -> bool {
    !server.config.get(MEMCACHED_AUTH_FILE).is_empty()
}

/// The users of a file.
pub(crate) fn read_file(path: &Path) -> Result<Pairs, String> {
    let content = fs::read(path)
        .map_err(|error| format!("memcached: cannot read '{}': {error}", path.display()))?;
    parse(&content).map_err(|why| format!("memcached: '{}' has {why}", path.display()))
}

fn parse(content: &[u8]) -> Result<Pairs, &'static str> {
    let lines = content.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end);
    let pair = |line: &[u8]| {
        let at = line.iter().position(|byte| *byte == b':').ok_or("a line without a colon")?;
        // The files of SASL fill up with colons what they leave empty.
        let end = line.iter().rposition(|byte| *byte != b':').map_or(0, |last| last + 1);
        let (user, password) = (&line[..at], line.get(at + 1..end).unwrap_or_default());
        match user.is_empty() || password.is_empty() {
            true => Err("an empty user or password"),
            false => Ok((user.into(), password.into())),
        }
    };
    let pairs: Pairs = lines.filter(|line| !line.is_empty()).map(pair).collect::<Result<_, _>>()?;
    if pairs.is_empty() { Err("no line user:password") } else { Ok(pairs) }
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn a_line_is_a_user() {
        let pairs = parse(b"a:b\r\n\nsome one:with:colons \nsasl:secret:::::\n").unwrap();
        let pairs: Vec<_> = pairs.iter().map(|(user, password)| (&**user, &**password)).collect();
        let expected: [(&[u8], &[u8]); 3] =
            [(b"a", b"b"), (b"some one", b"with:colons"), (b"sasl", b"secret")];
        assert_eq!(pairs, expected);
    }

    #[test]
    fn all_of_a_file_is_right_or_none_of_it() {
        for content in ["", "\n", "a:b\nx\n", "a:b\n:x\n", "a:b\nx:\n", "a:b\nx:::\n"] {
            assert!(parse(content.as_bytes()).is_err(), "{content:?}");
        }
    }
}
