//! What the port of HTTP reads of the server.
//!
//! Invariant: figures come from INFO's own text; what changes the server is a client's session.

use std::ops::Deref;

use crate::links::Links;
use crate::net::network::Network;

/// The network, the links, and what tells INFO's text.
pub(crate) struct HttpState {
    pub(crate) network: &'static Network,
    pub(crate) links: &'static Links,
    /// All sections of INFO that need no look at a key.
    pub(crate) info: Box<dyn Fn() -> String + Send + Sync>,
}

impl Deref for HttpState {
    type Target = Network;

    fn deref(&self) -> &Network {
        self.network
    }
}
