//! The dashboard's page: files of the binary, the same for every caller.
//!
//! Invariants: the page runs no script and shows no picture but its own, and talks to this server
//! alone, and holds no figure, so anybody may have it.

use hyper::StatusCode;
use hyper::header::CONTENT_SECURITY_POLICY;

use super::response::{UnsentAnswer, text, with};

/// What a browser lets the page do.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'none'; base-uri 'none'; \
                      frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const PICTURE: &str = "image/svg+xml";

/// Each file: its path, its type, and what is in it.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("index.html")),
    ("/ui/style.css", STYLE, include_str!("style.css")),
    ("/ui/icon.svg", PICTURE, include_str!("icon.svg")),
    ("/ui/accounts.js", SCRIPT, include_str!("accounts.js")),
    ("/ui/api.js", SCRIPT, include_str!("api.js")),
    ("/ui/app.js", SCRIPT, include_str!("app.js")),
    ("/ui/charts.js", SCRIPT, include_str!("charts.js")),
    ("/ui/console.js", SCRIPT, include_str!("console.js")),
    ("/ui/keys.js", SCRIPT, include_str!("keys.js")),
    ("/ui/lists.js", SCRIPT, include_str!("lists.js")),
    ("/ui/overview.js", SCRIPT, include_str!("overview.js")),
    ("/ui/replication.js", SCRIPT, include_str!("replication.js")),
    ("/ui/samples.js", SCRIPT, include_str!("samples.js")),
    ("/ui/text.js", SCRIPT, include_str!("text.js")),
];

/// A file of the page.
pub(super) fn answer(path: &str) -> Option<UnsentAnswer> {
    let (_, kind, body) = FILES.iter().find(|(there, ..)| *there == path)?;
    let answer = text(StatusCode::OK, kind, *body);
    Some(with(answer, CONTENT_SECURITY_POLICY, POLICY))
}

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn the_page_is_small_and_needs_nothing_from_elsewhere() {
        let size: usize = FILES.iter().map(|(.., body)| body.len()).sum();
        assert!(size < 300_000, "{size} bytes");
        for (path, _, body) in FILES {
            for word in ["https://", "innerHTML", "insertAdjacentHTML", "document.write", "eval("] {
                assert!(!body.contains(word), "{path} has {word}");
            }
            // A namespace is a name and is never fetched.
            let names = body.matches("http://www.w3.org/2000/svg").count();
            assert_eq!(body.matches("http://").count(), names, "{path}");
        }
    }

    #[test]
    fn every_file_that_is_asked_for_is_there() {
        for (path, _, body) in FILES {
            for wanted in body.split(['\'', '"']).filter(|word| word.starts_with("/ui/")) {
                assert!(FILES.iter().any(|(there, ..)| *there == wanted), "{path}: {wanted}");
            }
            for wanted in body.split('\'').filter_map(|word| word.strip_prefix("./")) {
                let wanted = format!("/ui/{wanted}");
                assert!(FILES.iter().any(|(there, ..)| *there == wanted), "{path}: {wanted}");
            }
        }
    }
}
