//! What the functions that scripts call share with the run that is under way.
//!
//! Invariant: outside of a run there is no host, so nothing can be called.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use mlua::{Lua, RegistryKey};
use proto::{ArgsBuffer, Output, Resp};

use super::ffi::{HostSlot, Outcome, Panic};
use crate::call::{Place, Raised};
use crate::error::{ScriptError, before_nul};
use crate::host::{Host, Stop};
use crate::library::Registration;
use crate::modules::{JsonSettings, Seed};
use crate::result_budget::ResultBudget;
use crate::scratch::Scratch;

/// The state of an interpreter beside Lua's own.
pub(super) struct Shared {
    pub(super) host: HostSlot,
    /// Why the run is over, although Lua may not have noticed yet.
    pub(super) stop: Cell<Option<Stop>>,
    /// The error that nobody caught.
    pub(super) failure: RefCell<Option<Failure>>,
    /// What the host panicked with, which goes on when Lua is left.
    pub(super) panic: RefCell<Option<Panic>>,
    /// What the script speaks with the commands it calls.
    pub(super) resp: Cell<Resp>,
    /// Whether Lua has run for a while since somebody last asked here: in between a script cannot
    /// have made anything large.
    pub(super) has_ticked: Cell<bool>,
    /// How much the run may make.
    pub(super) budget: ResultBudget,
    /// The command that is called, and what it answers.
    pub(super) args: RefCell<ArgsBuffer>,
    output: RefCell<Output>,
    /// The answer, where `output` has it in pieces.
    whole: RefCell<Vec<u8>>,
    /// What became of the command.
    pub(super) outcome: Cell<Outcome>,
    /// What the library that is being loaded has registered.
    pub(super) loading: RefCell<Option<Registering>>,
    /// Whether that was loaded before, by another thread: what it says is known.
    pub(super) loads_again: Cell<bool>,
    pub(super) seed: Rc<Seed>,
    pub(super) json: Rc<JsonSettings>,
    pub(super) scratch: Rc<Scratch>,
}

/// What a library has registered so far: its functions in their order, and the body of each by its
/// name. All are in the registry: Lua's stack has room for few.
#[derive(Default)]
pub(super) struct Registering {
    pub(super) registrations: Vec<Registration>,
    pub(super) bodies: HashMap<Box<[u8]>, RegistryKey>,
}

/// An error that ended a run, not yet in its client's words.
pub(super) struct Failure {
    pub(super) text: Vec<u8>,
    pub(super) place: Option<Place>,
    pub(super) is_new: bool,
}

impl Shared {
    pub(super) fn new(lua: &Lua) -> Shared {
        let budget = ResultBudget::new(lua);
        Shared {
            scratch: Scratch::new(budget.clone()),
            host: HostSlot::default(),
            stop: Cell::new(None),
            failure: RefCell::new(None),
            panic: RefCell::new(None),
            resp: Cell::new(Resp::Two),
            has_ticked: Cell::new(true),
            budget,
            args: RefCell::default(),
            output: RefCell::default(),
            whole: RefCell::default(),
            outcome: Cell::new(Outcome::Outside),
            loading: RefCell::new(None),
            loads_again: Cell::new(false),
            seed: Rc::new(Seed::new()),
            json: Rc::default(),
        }
    }

    /// Begins a run that may make so many bytes.
    pub(super) fn begin(&self, budget: usize) {
        self.stop.set(None);
        self.failure.replace(None);
        self.resp.set(Resp::Two);
        self.json.reset();
        self.budget.set(budget);
    }

    /// Asks the host, unless the run is over; `None` outside of a run.
    pub(super) fn ask<T>(
        &self,
        question: impl FnOnce(&mut dyn Host) -> Result<T, Stop>,
    ) -> mlua::Result<Option<T>> {
        if self.stop.get().is_some() {
            return Err(Raised::Stop.into());
        }
        let Some(answer) = self.host.ask(question) else { return Ok(None) };
        answer.map(Some).map_err(|stop| {
            self.stop.set(Some(stop));
            Raised::Stop.into()
        })
    }

    /// Asks the host about the command in `args`.
    pub(super) fn check_command(&self) -> Outcome {
        let args = self.args.borrow();
        let answer = self.host.ask(|host| host.may_call(args.as_args())).flatten();
        answer.map_or(Outcome::Unknown, Outcome::Allowed)
    }

    /// Has the host execute the command in `args`.
    pub(super) fn call_command(&self) -> Outcome {
        // An error may have ended the reader of the answer before in the middle.
        if !self.whole.borrow().is_empty() {
            self.whole.take();
        }
        let (args, mut output) = (self.args.borrow(), self.output.borrow_mut());
        output.clear();
        let resp = self.resp.get();
        match self.host.ask(|host| host.call(args.as_args(), resp, &mut output)) {
            None => return Outcome::Outside,
            Some(Err(stop)) => {
                self.stop.set(Some(stop));
                return Outcome::Over;
            }
            Some(Ok(())) => {}
        }
        output.finish();
        let is_error = output.front().starts_with(b"-");
        if output.front().len() < output.len() {
            join(&mut output, &mut self.whole.borrow_mut());
        }
        if is_error { Outcome::Error } else { Outcome::Value }
    }

    /// The answer, which stays where it is until it is forgotten.
    pub(super) fn reply(&self) -> *const [u8] {
        let whole = self.whole.borrow();
        if whole.is_empty() { self.output.borrow().front() } else { &raw const **whole }
    }

    /// The text of an answer that is an error, its code first.
    pub(super) fn error_text(&self) -> Vec<u8> {
        let output = self.output.borrow();
        let line = output.front().strip_prefix(b"-").unwrap_or_default();
        line.split(|byte| *byte == b'\r').next().unwrap_or_default().to_vec()
    }

    /// Gives the memory of a large answer back.
    pub(super) fn forget_reply(&self) {
        let mut output = self.output.borrow_mut();
        output.clear();
        output.release_if_large();
        self.whole.take();
    }

    /// Called now and then while Lua runs.
    pub(super) fn tick(&self, lua: &Lua) -> mlua::Result<()> {
        self.has_ticked.set(true);
        let answer = self.ask(|host| host.check_time());
        if self.stop.get() == Some(Stop::Killed) && self.failure.borrow().is_none() {
            self.failure.replace(Some(Failure::killed(super::failure::raiser(lua, 0))));
        }
        answer.map(drop)
    }
}

impl Failure {
    /// SCRIPT KILL ended the run.
    pub(super) fn killed(place: Option<Place>) -> Self {
        let text = b"ERR Script killed by user with SCRIPT KILL...".to_vec();
        Self { text, place, is_new: true }
    }

    /// The error as the client of `script` sees it.
    pub(super) fn describe(self, script: &[u8]) -> ScriptError {
        let mut text = before_nul(&self.text).to_vec();
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
        text.extend_from_slice(before_nul(&self.text));
        ScriptError { text, is_new: self.is_new }
    }
}

/// Puts the pieces of an output together.
#[cold]
fn join(output: &mut Output, whole: &mut Vec<u8>) {
    whole.clear();
    whole.reserve_exact(output.len());
    while !output.is_empty() {
        let count = output.front().len();
        whole.extend_from_slice(output.front());
        output.consume(count);
    }
}
