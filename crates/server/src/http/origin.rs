//! Pages of other sites: what they have a browser send is refused.
//!
//! Invariants: a request for data that says that another site made it is refused, whatever it asks
//! for; a request that needed no password, whatever it brought, is answered only under a name that
//! no other site can have, so a name that is pointed at this machine leads nowhere. Plain figures
//! are no data: whoever scrapes them may know the server by any name, and is told no names of keys
//! and users then.

use std::net::IpAddr;

use acl::User;
use hyper::HeaderMap;
use hyper::header::{HOST, ORIGIN};

/// Why a request to the API is refused under the name that it was sent to, as its user's.
pub(super) fn refusal_of_name(headers: &HeaderMap, user: &User) -> Option<&'static str> {
    const NAMED: &str = "Without a password the server answers to its address or localhost only.";
    (!may_be_told_names(headers, user)).then_some(NAMED)
}

/// Whether a request is told names that are data: its user needs a password, or it was sent to an
/// own name.
pub(super) fn may_be_told_names(headers: &HeaderMap, user: &User) -> bool {
    let host = || header(headers, HOST.as_str()).unwrap_or_default();
    !user.rules().needs_no_password() || is_own_name(host())
}

/// Why a request is refused that says that another site made it.
pub(super) fn refusal_of_other_site(headers: &HeaderMap) -> Option<&'static str> {
    let text = |name: &str| header(headers, name);
    let host = text(HOST.as_str()).unwrap_or_default();
    if !matches!(text("sec-fetch-site"), None | Some("same-origin" | "none")) {
        return Some("Requests of other sites are refused.");
    }
    let is_own = |origin: &str| {
        let (_, authority) = origin.split_once("://").unwrap_or(("", ""));
        authority.eq_ignore_ascii_case(host)
    };
    if text(ORIGIN.as_str()).is_some_and(|origin| !is_own(origin)) {
        return Some("Requests of other sites are refused.");
    }
    None
}

fn header<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

/// Whether a host is told by its address, or is this machine.
fn is_own_name(host: &str) -> bool {
    if let Some((address, _)) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return address.parse::<IpAddr>().is_ok();
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use hyper::HeaderMap;
    use hyper::header::{HeaderName, HeaderValue};

    use super::{is_own_name, refusal_of_other_site};

    fn is_refused(headers: &[(&'static str, &'static str)]) -> bool {
        let pairs = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)));
        refusal_of_other_site(&pairs.collect::<HeaderMap>()).is_some()
    }

    #[test]
    fn own_names_are_addresses_and_localhost() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:9121", "[::1]:9121", "[::1]"] {
            assert!(is_own_name(host), "{host}");
        }
        for host in ["evil.example:9121", "127.0.0.1.evil.example", "", "[x]:1", "localhost.evil"] {
            assert!(!is_own_name(host), "{host}");
        }
    }

    #[test]
    fn other_sites_are_refused() {
        let named = ("host", "db.example:9121");
        assert!(!is_refused(&[named]));
        assert!(!is_refused(&[named, ("origin", "http://db.example:9121")]));
        for origin in ["http://evil.example", "http://db.example", "null", "db.example:9121"] {
            assert!(is_refused(&[named, ("origin", origin)]), "{origin}");
        }
        let local = ("host", "localhost:1");
        for (site, is_wrong) in
            [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)]
        {
            assert_eq!(is_refused(&[local, ("sec-fetch-site", site)]), is_wrong, "{site}");
        }
    }
}
