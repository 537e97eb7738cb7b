//! `redis://`, `rediss://` and their kin: where the server is, and which user asks.
//!
//! Invariant: what stands in the address wins over what stood before it, and only what it names is
//! changed.

use super::Options;

/// Takes over what an address says.
pub(super) fn apply(options: &mut Options, text: &str) -> Result<(), String> {
    let (scheme, rest) = text.split_once("://").ok_or("Invalid URI scheme")?;
    match scheme.to_ascii_lowercase().as_str() {
        "redis" | "valkey" => {}
        "rediss" | "valkeys" => options.is_encrypted = true,
        _ => return Err("Invalid URI scheme".to_owned()),
    }
    let (place, database) = rest.split_once('/').unwrap_or((rest, ""));
    let place = match place.rsplit_once('@') {
        Some((login, place)) => {
            let (user, password) = match login.split_once(':') {
                Some((user, password)) => (user, password),
                None => ("", login),
            };
            if !user.is_empty() {
                options.login.user = Some(decoded(user)?);
            }
            options.login.password = Some(decoded(password)?);
            options.shows_password = true;
            place
        }
        None => place,
    };
    let (host, port) = match place.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, port)) => (host, port.strip_prefix(':')),
        None => place.split_once(':').map_or((place, None), |(host, port)| (host, Some(port))),
    };
    if !host.is_empty() {
        options.host = decoded(host)?;
    }
    if let Some(port) = port {
        options.port = port.parse().map_err(|_| format!("Invalid port in URI: '{port}'"))?;
    }
    let database = database.split('?').next().unwrap_or_default();
    if !database.is_empty() {
        let number = database.parse().map_err(|_| format!("Invalid database: '{database}'"))?;
        options.database = number;
    }
    Ok(())
}

/// The text that `%XX` in an address stands for.
fn decoded(text: &str) -> Result<String, String> {
    const INCOMPLETE: &str = "Incomplete URI encoding";
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2).ok_or(INCOMPLETE)?;
        let digits = std::str::from_utf8(digits).map_err(|_| INCOMPLETE)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| INCOMPLETE)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| "Invalid URI encoding".to_owned())
}
