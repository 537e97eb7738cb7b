//! A command that waits at its node: what its node is asked meanwhile.
//!
//! Invariants: CLIENT UNBLOCK is said again until the command's reply is there, as nothing orders
//! it behind the command, and only where the node has just told of the link: its id may be another
//! client's. A node that answers nothing, or does not know the link any more, keeps nobody waiting.

use std::time::Duration;

use proto::args::encode_command;
use tokio::sync::oneshot;

use super::link::{LinkOrder, LinkReply, LinkRequest};
use super::pool::{LinkHandle, LinkKey, LinkPools};

/// CLIENT UNBLOCK is said again after so long, and ever more seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LAST_PAUSE: Duration = Duration::from_millis(100);

/// The wait of a link's command.
pub(super) struct NodeWait<'a> {
    pools: &'a LinkPools,
    /// Where the node is asked.
    key: LinkKey,
    link: &'a LinkHandle,
    /// How the wait is to end, as long as the node has not heard that.
    ends: Option<bool>,
    pause: Duration,
}

/// What a look at the node has shown.
pub(super) enum NodeAnswer {
    /// The reply comes by the link, sooner or later.
    Waits,
    /// The node does not end waits for this one.
    Refuses,
    /// There will be no reply.
    Lost(String),
}

/// What a node says when asked for the link.
enum LinkSight {
    /// The link is there, as far as the node tells.
    Seen,
    /// There is no such link.
    Forgotten,
    /// Nothing, and why.
    Nobody(String),
}

impl<'a> NodeWait<'a> {
    pub(super) fn new(pools: &'a LinkPools, key: LinkKey, link: &'a LinkHandle) -> Self {
        Self { pools, key, link, ends: None, pause: pools.timeout() }
    }

    /// How long it is until the next look.
    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// The wait is to end, with an error or as by its timeout.
    pub(super) fn end(&mut self, with_error: bool) {
        (self.ends, self.pause) = (Some(with_error), FIRST_PAUSE);
    }

    /// Asks the node what is to be asked of it.
    pub(super) async fn look(&mut self) -> NodeAnswer {
        let Some(with_error) = self.ends else { return answer_of(self.ask_for_link().await) };
        let Some(identity) = self.link.state.identity.get() else { return NodeAnswer::Refuses };
        match self.ask_for_link().await {
            LinkSight::Seen => {}
            LinkSight::Forgotten => return answer_of(LinkSight::Forgotten),
            LinkSight::Nobody(_) => return NodeAnswer::Refuses,
        }
        let how = if with_error { "ERROR" } else { "TIMEOUT" };
        let reply = self.ask(&["CLIENT", "UNBLOCK", &identity.id().to_string(), how]).await;
        let LinkReply::Whole(output, _) = reply else { return NodeAnswer::Refuses };
        match output.front() {
            b":1\r\n" => (self.ends, self.pause) = (None, self.pools.timeout()),
            // The command has not come to its node yet, or its reply is on the way.
            line if line.starts_with(b":") => self.pause = (self.pause * 2).min(LAST_PAUSE),
            _ => return NodeAnswer::Refuses,
        }
        NodeAnswer::Waits
    }

    /// Whether the node is there and knows the link.
    async fn ask_for_link(&self) -> LinkSight {
        let Some(identity) = self.link.state.identity.get() else {
            // What the link is called there is not told, or not yet.
            return sight_of(self.ask(&["PING"]).await, |_| true);
        };
        let reply = self.ask(&["CLIENT", "LIST", "ID", &identity.id().to_string()]).await;
        sight_of(reply, |line| identity.is_in(line))
    }

    async fn ask(&self, words: &[&str]) -> LinkReply {
        let mut bytes = Vec::new();
        encode_command(words.iter().map(|word| word.as_bytes()), &mut bytes);
        let requests = vec![LinkRequest { begin: 0, skipped: 0, is_program: false }];
        let (sender, receiver) = oneshot::channel();
        let (ceiling, may_wait, held) = (usize::MAX, false, None);
        let order = LinkOrder { bytes, requests, ceiling, may_wait, held, sender };
        self.pools.send(self.key, order);
        let reply = receiver.await.ok().and_then(|mut replies| replies.pop());
        reply.unwrap_or_else(|| LinkReply::Lost("the link has ended".to_owned()))
    }
}

/// What a reply says of the link. One that is an error comes of a node that may not be asked, and
/// is there.
fn sight_of(reply: LinkReply, names_link: impl Fn(&[u8]) -> bool) -> LinkSight {
    match reply {
        LinkReply::Whole(output, _) | LinkReply::OfProgram(output) => {
            let line = output.front();
            match line.starts_with(b"-") || names_link(line) {
                true => LinkSight::Seen,
                false => LinkSight::Forgotten,
            }
        }
        // The link by which the node was to be asked has ended; the next look has another.
        LinkReply::Unsent(_) => LinkSight::Seen,
        LinkReply::Unreachable(why) | LinkReply::Lost(why) => LinkSight::Nobody(why),
    }
}

fn answer_of(sight: LinkSight) -> NodeAnswer {
    match sight {
        LinkSight::Seen => NodeAnswer::Waits,
        LinkSight::Forgotten => NodeAnswer::Lost("it does not know the link any more".to_owned()),
        LinkSight::Nobody(why) => NodeAnswer::Lost(why),
    }
}

#[cfg(test)]
mod tests {
    use proto::{Output, Reply, Resp};

    use super::{LinkReply, NodeAnswer, answer_of, sight_of};

    #[test]
    fn a_node_that_does_not_know_the_link_keeps_nobody() {
        let whole = |text: &str| {
            let mut output = Output::new();
            Reply::new(&mut output, Resp::Two).raw(text.as_bytes());
            LinkReply::Whole(output, None)
        };
        for (reply, waits) in [
            (whole("$10\r\nid=7 addr=\r\n"), true),
            (whole("=10\r\ntxt:id=7 a\r\n"), true),
            (whole("-NOPERM no\r\n"), true),
            (LinkReply::Unsent(String::new()), true),
            (whole("$0\r\n\r\n"), false),
            (whole("$9\r\nid=77 a=1\r\n"), false),
            (LinkReply::Unreachable(String::new()), false),
            (LinkReply::Lost(String::new()), false),
        ] {
            let names_link = |line: &[u8]| line.windows(5).any(|part| part == b"id=7 ");
            let answer = answer_of(sight_of(reply, names_link));
            assert_eq!(matches!(answer, NodeAnswer::Waits), waits);
        }
    }
}
