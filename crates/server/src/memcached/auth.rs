//! The user of a memcached client: SASL PLAIN in the binary protocol, and in text a first `set`
//! whose value is a name and a password. The client is a user as AUTH knows them, the default one
//! by another name too, or a user of a file, which has the default user's rights.
//!
//! Invariants: both are checked as AUTH checks them; before that nothing is executed and nothing
//! told but the version; an attempt that failed leaves a client where it was.

use acl::DEFAULT_USER;
use config::settings::MEMCACHED_USER;
use engine::admission::acl_check::{LoginAttempt, verify};
use engine::session::Session;
use engine::session::Step;
use proto::memcached::{Failure, Form, Operation, Request, Response, Store, StoreMode, answer};

use super::MemcachedServer;
use super::counters::Counter;
use super::{MEMCACHED_VERSION, RequestContext, users};

/// What a text client is told whose name and password cannot be one.
const TOO_LONG: &str = "auth token too long";

/// The one mechanism there is.
const PLAIN: &[u8] = b"PLAIN";

/// Whether the client need not log in, or has done so.
#[inline]
pub(crate) fn is_authenticated(server: &MemcachedServer, session: &Session) -> bool {
    session.is_authenticated() || !needs_login(server)
}

/// Whether clients may log in: one that need not can still be another than the default user.
pub(super) fn offers_login(server: &MemcachedServer) -> bool {
    needs_login(server) || server.access.users.all().len() > 1
}

/// Whether clients have to log in.
#[cold]
pub(crate) fn needs_login(server: &MemcachedServer) -> bool {
    engine::session::needs_password(server) || users::is_configured(server)
}

impl RequestContext<'_> {
    /// Serves a client that has not logged in.
    #[cold]
    pub(super) fn serve_unauthenticated(&mut self) -> Step {
        match &self.request.operation {
            Operation::ListMechanisms | Operation::Authenticate { .. } => self.authenticate(),
            Operation::Version if matches!(self.request.form, Form::Binary { .. }) => {
                self.respond(Response::Version(MEMCACHED_VERSION.as_bytes()))
            }
            Operation::Quit => {
                self.respond(Response::Ok);
                Step::Close
            }
            Operation::Store(Store { mode: StoreMode::Set, compare: None, value, .. })
                if matches!(self.request.form, Form::Text { .. }) =>
            {
                self.admit_by_text(value)
            }
            Operation::Refuse(refusal) if refusal.closes => {
                self.respond(Response::Failed(Failure::Unauthenticated));
                Step::Close
            }
            // That a token is too long is said in its words.
            Operation::Refuse(refusal) if matches!(refusal.failure, Failure::Client(TOO_LONG)) => {
                self.respond(Response::Failed(refusal.failure))
            }
            _ => self.respond(Response::Failed(Failure::Unauthenticated)),
        }
    }

    /// Serves the requests of SASL.
    pub(super) fn authenticate(&mut self) -> Step {
        let server = self.server;
        let response = match self.request.operation {
            _ if !offers_login(server) => Response::Failed(Failure::Unknown),
            Operation::ListMechanisms => Response::Mechanisms(PLAIN),
            Operation::Authenticate { mechanism: PLAIN, data, continued: false } => {
                match self.log_in_by(data) {
                    true => Response::Authenticated,
                    false => Response::Failed(Failure::AuthenticationFailed),
                }
            }
            _ => Response::Failed(Failure::AuthenticationFailed),
        };
        self.respond(response)
    }

    /// Lets a client in by the value of a text, and tells it.
    pub(super) fn admit_by_text(&mut self, token: &[u8]) -> Step {
        let response = self.log_in_by_text(token);
        // A client that comes in is told so, whether it wants an answer or not.
        let form = Form::Text { with_cas: false, quiet: false };
        answer(self.out, &Request { form, ..*self.request }, response);
        Step::Done
    }

    /// Lets a client in by a name and a password, with blanks between and perhaps around them.
    fn log_in_by_text(&mut self, token: &[u8]) -> Response<'static> {
        let token = without_blanks(token);
        let Some(at) = token.iter().position(|byte| *byte == b' ') else {
            return Response::Failed(Failure::Client("bad authentication token format"));
        };
        match self.log_in(&token[..at], without_blanks(&token[at..])) {
            true => Response::Stored { cas: 0, size: 0 },
            false => Response::Failed(Failure::AuthenticationFailed),
        }
    }

    /// Lets a client in by what PLAIN is given: the user to act for, a name and a password.
    fn log_in_by(&mut self, data: &[u8]) -> bool {
        let parts: Vec<&[u8]> = data.split(|byte| *byte == 0).collect();
        match parts[..] {
            [_, user, password] => self.log_in(user, password),
            _ => self.log_in(b"", b""),
        }
    }

    fn log_in(&mut self, user: &[u8], password: &[u8]) -> bool {
        let server = self.server;
        self.count(Counter::AuthCommands);
        let is_ours = *user == *server.config.get(MEMCACHED_USER);
        let found = if server.memcached.users.admits(user, password) {
            Some(server.access.users.default_user())
        } else {
            let name = if is_ours { DEFAULT_USER } else { user };
            let context = acl::Context::TopLevel;
            let login = LoginAttempt { context, word: b"AUTH", name, password };
            let found = verify(server, &self.session.client, login).ok();
            // Without a password nobody can log in as the default user.
            found.filter(|user| {
                user.name() != DEFAULT_USER || engine::session::needs_password(server)
            })
        };
        let is_right = found.is_some();
        if is_right {
            self.session.authenticate(found);
        } else {
            self.count(Counter::AuthErrors);
        }
        is_right
    }
}

/// A text without the blanks around it.
fn without_blanks(text: &[u8]) -> &[u8] {
    let is_of_word = |byte: &u8| *byte != b' ';
    let start = text.iter().position(is_of_word).unwrap_or(text.len());
    let end = text.iter().rposition(is_of_word).map_or(start, |last| last + 1);
    &text[start..end]
}
