//! What the functions that scripts call share with the run that is under way.
//!
//! Invariant: the host is here exactly while a run is; outside of one, nothing can be called.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use mlua::Lua;
use proto::{ArgsBuffer, Output, Resp};

use crate::call::{Place, Raised};
use crate::error::ScriptError;
use crate::host::{Host, Stop};
use crate::library::Registration;
use crate::modules::{JsonSettings, Seed};

/// The state of an interpreter beside Lua's own.
pub(super) struct Shared<H> {
    pub(super) host: RefCell<Option<H>>,
    /// Why the run is over, although Lua may not have noticed yet.
    pub(super) stop: Cell<Option<Stop>>,
    /// The error that nobody caught.
    pub(super) failure: RefCell<Option<Failure>>,
    /// What the script speaks with the commands it calls.
    pub(super) resp: Cell<Resp>,
    pub(super) args: RefCell<ArgsBuffer>,
    pub(super) output: RefCell<Output>,
    /// What the library that is being loaded has registered.
    pub(super) loading: RefCell<Option<Vec<Registered>>>,
    pub(super) seed: Rc<Seed>,
    pub(super) json: Rc<JsonSettings>,
}

/// A function of a library that is being loaded.
pub(super) struct Registered {
    pub(super) registration: Registration,
    pub(super) body: mlua::Function,
}

/// An error that ended a run, not yet in its client's words.
pub(super) struct Failure {
    pub(super) text: Vec<u8>,
    pub(super) place: Option<Place>,
    pub(super) is_new: bool,
}

impl<H: Host> Shared<H> {
    pub(super) fn new() -> Shared<H> {
        Shared {
            host: RefCell::new(None),
            stop: Cell::new(None),
            failure: RefCell::new(None),
            resp: Cell::new(Resp::Two),
            args: RefCell::default(),
            output: RefCell::default(),
            loading: RefCell::new(None),
            seed: Rc::new(Seed::new()),
            json: Rc::default(),
        }
    }

    /// Begins a run.
    pub(super) fn enter(&self, host: H) {
        debug_assert!(self.host.borrow().is_none(), "a run ends before the next begins");
        self.host.replace(Some(host));
        self.stop.set(None);
        self.failure.replace(None);
        self.resp.set(Resp::Two);
        self.json.reset();
    }

    /// Ends the run that [`enter`](Self::enter) began.
    pub(super) fn leave(&self) -> H {
        self.host.take().expect("a run that was entered is left once")
    }

    /// Asks the host, unless the run is over; `None` outside of a run.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&mut H) -> Result<T, Stop>,
    ) -> mlua::Result<Option<T>> {
        if self.stop.get().is_some() {
            return Err(Raised::Stop.into());
        }
        let mut host = self.host.borrow_mut();
        let Some(host) = host.as_mut() else { return Ok(None) };
        question(host).map(Some).map_err(|stop| {
            self.stop.set(Some(stop));
            Raised::Stop.into()
        })
    }

    /// Called now and then while Lua runs.
    pub(super) fn tick(&self, lua: &Lua) -> mlua::Result<()> {
        let answer = self.ask(Host::check_time);
        if self.stop.get() == Some(Stop::Killed) && self.failure.borrow().is_none() {
            let text = b"ERR Script killed by user with SCRIPT KILL...".to_vec();
            let place = crate::call::place_at(lua, 0);
            self.failure.replace(Some(Failure { text, place, is_new: true }));
        }
        answer.map(drop)
    }
}

impl Failure {
    /// The error as the client of `script` sees it.
    pub(super) fn describe(self, script: &[u8]) -> ScriptError {
        let mut text = self.text;
        text.extend_from_slice(b" script: ");
        text.extend_from_slice(script);
        if let Some(place) = self.place {
            text.extend_from_slice(format!(", on {}:{}.", place.source, place.line).as_bytes());
        }
        ScriptError { text, is_new: self.is_new }
    }

    /// The error as the client that loads a library sees it.
    pub(super) fn describe_loading(self) -> ScriptError {
        let mut text = b"ERR Error registering functions: ".to_vec();
        text.extend_from_slice(&self.text);
        ScriptError { text, is_new: self.is_new }
    }
}
