//! The forms that values of flags take as text. Invariant: what is returned is in the range that
//! the error's text names.

use base::quote::split_arguments;

use super::draft::Uri;
use super::parse::is_dash;
use super::{CustomCommand, DataSize, KeyPattern, Peer};

/// Values larger than a server takes, and close to what memory takes.
const SIZE_MAX: u32 = 1 << 30;

/// Commands that are not answered by one reply each, and so cannot be measured.
const UNANSWERED: [&str; 9] = [
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SSUBSCRIBE",
    "SUNSUBSCRIBE",
    "MONITOR",
    "SYNC",
    "PSYNC",
];

/// A whole number.
pub(super) fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("error: {flag} must be a number, not '{text}'."))
}

/// A whole number above zero.
pub(super) fn positive<T>(flag: &str, text: &str) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + Default,
{
    let number = text.parse().ok().filter(|number| *number > T::default());
    number.ok_or_else(|| format!("error: {flag} must be a number greater than zero."))
}

/// A TCP or UDP port.
pub(super) fn port(flag: &str, text: &str) -> Result<u16, String> {
    let port = text.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| format!("error: {flag} must be a number in the range [1-65535]."))
}

/// HOST:PORT, or a port of this machine.
pub(super) fn rival(flag: &str, text: &str) -> Result<Peer, String> {
    let (host, number) = text.rsplit_once(':').unwrap_or(("127.0.0.1", text));
    let server = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    if server.is_empty() {
        return Err(format!("error: {flag} '{text}' names no host."));
    }
    Ok(Peer { server, port: port(flag, number)? })
}

/// A number of keys.
pub(super) fn key(flag: &str, text: &str) -> Result<u64, String> {
    let key = text.parse().ok().filter(|key| i64::try_from(*key).is_ok());
    key.ok_or_else(|| format!("error: {flag} must be a number in the range [0-{}].", i64::MAX))
}

/// A finite number above zero.
pub(super) fn decimal(flag: &str, text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| format!("error: {flag} must be greater than zero."))
}

/// `A:B`.
pub(super) fn ratio(flag: &str, text: &str) -> Result<(u32, u32), String> {
    let pair = text
        .split_once(':')
        .and_then(|(left, right)| Some((left.parse().ok()?, right.parse().ok()?)));
    pair.ok_or_else(|| format!("error: {flag} must be expressed as [0-n]:[0-n]."))
}

/// `MIN-MAX`, whatever dash stands between them.
pub(super) fn range(flag: &str, text: &str) -> Result<(u32, u32), String> {
    let pair = text
        .split_once(is_dash)
        .and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
    pair.filter(|(least, most)| least <= most)
        .ok_or_else(|| format!("error: {flag} must be expressed as [0-n]-[0-n], the least first."))
}

/// A size of values.
pub(super) fn size(flag: &str, text: &str) -> Result<u32, String> {
    let size = text.parse().ok().filter(|size| (1..=SIZE_MAX).contains(size));
    size.ok_or_else(|| format!("error: {flag} must be a number in the range [1-{SIZE_MAX}]."))
}

/// `MIN-MAX`, both sizes of values.
pub(super) fn size_range(flag: &str, text: &str) -> Result<DataSize, String> {
    let (minimum, maximum) = range(flag, text)?;
    if minimum == 0 || maximum > SIZE_MAX {
        return Err(format!("error: {flag} must lie in the range [1-{SIZE_MAX}]."));
    }
    Ok(DataSize::Range { minimum, maximum, by_key: false })
}

/// `SIZE:WEIGHT,...`.
pub(super) fn size_list(flag: &str, text: &str) -> Result<DataSize, String> {
    let form = || format!("error: {flag} must be expressed as [size1:weight1],...[sizeN:weightN].");
    let mut list = Vec::new();
    for item in text.split(',') {
        let (len, weight) = item.split_once(':').ok_or_else(form)?;
        list.push((size(flag, len)?, positive(flag, weight)?));
    }
    Ok(DataSize::List(list))
}

/// One letter of a key pattern.
pub(super) fn pattern(text: &str) -> Option<KeyPattern> {
    Some(match text {
        "R" => KeyPattern::Random,
        "S" => KeyPattern::Sequential,
        "P" => KeyPattern::Parallel,
        "G" => KeyPattern::Gaussian,
        "Z" => KeyPattern::Zipf,
        _ => return None,
    })
}

/// `SET:GET` patterns.
pub(super) fn patterns(flag: &str, text: &str) -> Result<(KeyPattern, KeyPattern), String> {
    let pair = text.split_once(':');
    pair.and_then(|(set, get)| Some((pattern(set)?, pattern(get)?)))
        .ok_or_else(|| format!("error: {flag} must be in the format of [S/R/G/P/Z]:[S/R/G/P/Z]."))
}

/// `50,99,99.9`.
pub(super) fn percentiles(flag: &str, text: &str) -> Result<Vec<f64>, String> {
    let one = |item: &str| item.trim().parse().ok().filter(|part| *part > 0.0 && *part <= 100.0);
    let list: Option<Vec<f64>> = text.split(',').map(one).collect();
    list.ok_or_else(|| format!("error: {flag} must be numbers greater than 0 and up to 100."))
}

/// `PASS` or `USER:PASS`.
pub(super) fn credentials(text: &str) -> (Option<String>, String) {
    match text.split_once(':') {
        Some((user, password)) => {
            (Some(user).filter(|user| !user.is_empty()).map(String::from), password.into())
        }
        None => (None, text.into()),
    }
}

/// A command in quotes.
pub(super) fn command(flag: &str, text: &str) -> Result<CustomCommand, String> {
    let words = split_arguments(text.as_bytes()).filter(|words| !words.is_empty());
    let words = words.ok_or_else(|| format!("error: {flag} '{text}' cannot be split in words."))?;
    let verb = &words[0];
    if UNANSWERED.iter().any(|name| verb.eq_ignore_ascii_case(name.as_bytes())) {
        let verb = String::from_utf8_lossy(verb).to_ascii_uppercase();
        return Err(format!(
            "error: {flag} {verb} is not supported: it is not answered by one reply per request."
        ));
    }
    Ok(CustomCommand { words, ratio: 1, key_pattern: KeyPattern::Random })
}

/// `redis://[[USER:]PASS@]HOST[:PORT][/DB]`, percent-encoded as redis-cli reads it; `rediss://` for
/// an encrypted one.
pub(super) fn uri(flag: &str, text: &str) -> Result<Uri, String> {
    let wrong =
        |what: &str| format!("error: {flag}: {what}; expected redis://user:password@host:port/db.");
    let (is_encrypted, rest) = match text.split_once("://") {
        Some(("redis", rest)) => (false, rest),
        Some(("rediss", rest)) => (true, rest),
        _ => return Err(wrong("unknown scheme")),
    };
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (user_info, host_port) = match authority.rsplit_once('@') {
        Some((user_info, host_port)) => (Some(user_info), host_port),
        None => (None, authority),
    };
    let (host, port_text) = split_host(host_port).ok_or_else(|| wrong("malformed host"))?;
    if host.is_empty() {
        return Err(wrong("no host"));
    }
    let authenticate = match user_info {
        None | Some("") => None,
        Some(info) => {
            let (user, password) = credentials(info);
            let decode = |text: &str| percent_decode(text).ok_or_else(|| wrong("bad escape"));
            Some((user.as_deref().map(decode).transpose()?, decode(&password)?))
        }
    };
    let database = Some(path).filter(|path| !path.is_empty());
    Ok(Uri {
        server: percent_decode(host).ok_or_else(|| wrong("bad escape"))?,
        port: port_text.map(|text| port("port", text)).transpose()?,
        authenticate,
        is_encrypted,
        database: database.map(|text| number("database", text)).transpose()?,
    })
}

/// Host and port; an IPv6 address stands in brackets.
fn split_host(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(inside) = text.strip_prefix('[') {
        let (host, after) = inside.split_once(']')?;
        return match after {
            "" => Some((host, None)),
            _ => Some((host, Some(after.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((host, port)) => Some((host, Some(port))),
        None => Some((text, None)),
    }
}

fn percent_decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        if *first == b'%' {
            let digits = std::str::from_utf8(after.get(..2)?).ok()?;
            if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return None;
            }
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &after[2..];
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}
