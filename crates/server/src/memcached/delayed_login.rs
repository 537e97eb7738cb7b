//! A login of memcached's protocols that waits, as others from its address have failed.
//!
//! Invariant: what the client has sent is kept as it came, and looked at once its time has come.

use engine::admission::delayed_login::DelayedLogin;
use engine::session::{Session, StepContext, StepOutcome, SteppedWork, Steps, Suspension};
use proto::OwnedArgs;
use proto::memcached::{Form, Operation, Request, Store, StoreMode};

use super::auth::{is_authenticated, offers_login};
use super::command_map::CommandKind;
use super::{MemcachedServer, RequestContext};

/// A login under way.
struct DelayedAttempt {
    server: &'static MemcachedServer,
    login: DelayedLogin,
    credentials: LoginWords,
}

/// What the client has sent.
enum LoginWords {
    /// The value of a first `set`.
    Text(Box<[u8]>),
    /// A request of SASL, and how it is answered.
    Sasl { mechanism: Box<[u8]>, data: Box<[u8]>, continued: bool, form: Form<'static> },
}

impl LoginWords {
    /// What of a request is an attempt to log in, if it is one.
    fn of(server: &MemcachedServer, session: &Session, request: &Request<'_>) -> Option<Self> {
        match (request.operation, request.form) {
            (
                Operation::Authenticate { mechanism, data, continued },
                Form::Binary { opcode, opaque },
            ) => {
                let form = Form::Binary { opcode, opaque };
                let (mechanism, data) = (mechanism.into(), data.into());
                offers_login(server).then_some(Self::Sasl { mechanism, data, continued, form })
            }
            (
                Operation::Store(Store { mode: StoreMode::Set, compare: None, value, .. }),
                Form::Text { .. },
            ) => (!is_authenticated(server, session)).then(|| Self::Text(value.into())),
            _ => None,
        }
    }
}

/// The wait of a login that is delayed.
#[cold]
pub(crate) fn delay_login(
    server: &'static MemcachedServer,
    session: &Session,
    request: &Request<'_>,
) -> Option<Suspension> {
    let credentials = LoginWords::of(server, session, request)?;
    let entry = server.memcached.commands(server).entry(CommandKind::LogIn)?;
    let login = DelayedLogin::begin(server, session.client.peer)?;
    let args: OwnedArgs = [entry.spec.name.as_bytes()].into_iter().collect();
    let attempt = DelayedAttempt { server, login, credentials };
    Some(Suspension::Steps(Steps::begin(entry, args.as_args(), Box::new(attempt))))
}

impl SteppedWork for DelayedAttempt {
    fn step(&mut self, step_context: &mut StepContext<'_, '_>) -> StepOutcome {
        let server = self.server;
        if let Some(left) = self.login.time_left(server) {
            step_context.wait_for(left);
            return StepOutcome::Waits;
        }
        let text = Form::Text { with_cas: false, quiet: false };
        let request = match &self.credentials {
            LoginWords::Text(_) => Request { operation: Operation::Nothing, form: text },
            LoginWords::Sasl { mechanism, data, continued: is_continued, form } => {
                let continued = *is_continued;
                let operation = Operation::Authenticate { mechanism, data, continued };
                Request { operation, form: *form }
            }
        };
        let (lane, session, out) =
            (step_context.lane, &mut *step_context.session, &mut *step_context.out);
        let request = &request;
        let mut context = RequestContext { server, lane, session, request, location: None, out };
        match &self.credentials {
            LoginWords::Text(token) => context.admit_by_text(token),
            LoginWords::Sasl { .. } => context.authenticate(),
        };
        StepOutcome::Done
    }
}
