//! A request of HTTP that comes in by the port of Redis.
//!
//! `GET /metrics HTTP/1.1` is a GET of too many arguments, so no command is lost to it; the lines
//! behind it stay in the input.
//!
//! Invariant: a client that has said anything before is none of HTTP.

use std::sync::atomic::Ordering;

use config::settings::HTTP_METRICS_ON_PORT;
use proto::{Args, Output, Resp};

use crate::clients::peer::Peer;
use crate::clients::registry::Signal;
use crate::lane::Lane;
use crate::session::{Session, Step, Suspension};

/// The path, which may have parameters.
const PATH: &[u8] = b"/metrics";

/// Has the connection go to where HTTP is served, if its first request is for metrics and the
/// configuration allows that. The request waits for it.
#[cold]
pub(super) fn divert(
    lane: &Lane,
    session: &mut Session,
    args: Args<'_>,
    out: &Output,
) -> Option<Step> {
    let live = &session.client.live;
    let is_first = out.is_empty() && live.commands.load(Ordering::Relaxed) == 0;
    let is_fresh = is_first && session.resp == Resp::Two && !session.is_queueing();
    let may_leave = is_fresh && matches!(session.client.peer, Peer::Tcp(_));
    if !may_leave || !is_for_metrics(args) || !lane.shared.config.get(HTTP_METRICS_ON_PORT) {
        return None;
    }
    session.rare_state.get_or_insert_default().asks_for_http = true;
    session.client.ask(Signal::Move);
    session.client.wake();
    Some(Step::Postpone(Suspension::Pause))
}

fn is_for_metrics(args: Args<'_>) -> bool {
    let is_path = |word: &[u8]| {
        word.strip_prefix(PATH).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"?"))
    };
    args.len() == 3 && &args[0] == b"GET" && is_path(&args[1]) && args[2].starts_with(b"HTTP/1.")
}

#[cfg(test)]
mod tests {
    use proto::OwnedArgs;

    use super::is_for_metrics;

    #[test]
    fn only_a_request_line_for_metrics_is_one() {
        let is = |line: &str| {
            let words: OwnedArgs = line.split(' ').map(str::as_bytes).collect();
            is_for_metrics(words.as_args())
        };
        for line in ["GET /metrics HTTP/1.1", "GET /metrics HTTP/1.0", "GET /metrics?a=b HTTP/1.1"]
        {
            assert!(is(line), "{line}");
        }
        for line in [
            "GET /metrics",
            "GET /metrics HTTP/2",
            "GET /metricsx HTTP/1.1",
            "GET / HTTP/1.1",
            "get /metrics HTTP/1.1",
            "POST /metrics HTTP/1.1",
            "GET /metrics HTTP/1.1 more",
        ] {
            assert!(!is(line), "{line}");
        }
    }
}
