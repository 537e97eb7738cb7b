//! Where exports go: the URL of `otlp-endpoint`.
//!
//! Invariant: an endpoint holds no name or password, which would be seen where addresses are.

use crate::Signal;

/// A URL of HTTP, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether it is reached by TLS.
    pub is_encrypted: bool,
    /// A name or an address, without the brackets of IPv6.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The host and the port as the URL has them.
    pub authority: String,
    /// What stands before the path of each signal, with a slash at its end.
    base: String,
}

impl Endpoint {
    /// Reads a URL; the error says what is wrong with it.
    pub fn read(url: &str) -> Result<Self, &'static str> {
        let scheme =
            url.split_once("://").map(|(scheme, rest)| (scheme.to_ascii_lowercase(), rest));
        let (is_encrypted, rest) = match scheme {
            Some((scheme, rest)) if scheme == "http" => (false, rest),
            Some((scheme, rest)) if scheme == "https" => (true, rest),
            _ => return Err("it must be a URL that begins with http:// or https://"),
        };
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("a URL holds neither blanks nor bytes beyond ASCII");
        }
        if rest.contains(['?', '#']) {
            return Err("a URL with a query or a fragment names no endpoint");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("a URL is no place for a password: name it by otlp-headers");
        }
        let (host, port) = host_and_port(authority).ok_or("there is no host, or no such port")?;
        let port = port.unwrap_or(if is_encrypted { 443 } else { 80 });
        let base = format!("{}/", path.trim_end_matches('/'));
        Ok(Self { is_encrypted, host, port, authority: authority.to_owned(), base })
    }

    /// The path of a signal.
    pub fn path_of(&self, signal: Signal) -> String {
        format!("{}{}", self.base, signal.path())
    }
}

fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => {
            let (address, rest) = rest.split_once(']')?;
            address.parse::<std::net::Ipv6Addr>().ok()?;
            (address, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:".contains(&byte);
    if host.is_empty() || !host.bytes().all(is_host) {
        return None;
    }
    let port = match rest.strip_prefix(':') {
        Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(digits.parse().ok().filter(|port| *port != 0)?)
        }
        Some(_) => return None,
        None if rest.is_empty() => None,
        None => return None,
    };
    Some((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::Endpoint;
    use crate::Signal;

    #[test]
    fn urls_are_taken_apart() {
        for (url, is_encrypted, host, port, path) in [
            ("http://localhost:4318", false, "localhost", 4318, "/v1/metrics"),
            ("HTTPS://Collector.example/", true, "Collector.example", 443, "/v1/metrics"),
            ("http://10.0.0.1/otlp", false, "10.0.0.1", 80, "/otlp/v1/metrics"),
            ("http://[::1]:9/a/b/", false, "::1", 9, "/a/b/v1/metrics"),
        ] {
            let endpoint = Endpoint::read(url).expect(url);
            assert_eq!((endpoint.is_encrypted, &*endpoint.host), (is_encrypted, host), "{url}");
            assert_eq!((endpoint.port, endpoint.path_of(Signal::Metrics)), (port, path.into()));
        }
        let endpoint = Endpoint::read("http://h:4318").expect("it is one");
        assert_eq!(endpoint.path_of(Signal::Traces), "/v1/traces");
        assert_eq!(endpoint.authority, "h:4318");
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for url in [
            "",
            "localhost:4318",
            "grpc://localhost",
            "http://",
            "http://:80",
            "http://h:",
            "http://h:0",
            "http://h:65536",
            "http://h:+80",
            "http://h:80:80",
            "http://user:secret@h",
            "http://h/?a",
            "http://h/#a",
            "http://h/a b",
            "http://h\r\nX: y",
            "http://[::1",
            "http://[h]",
            "http://[::1]80",
        ] {
            assert!(Endpoint::read(url).is_err(), "{url}");
        }
    }
}
