//! A library of functions that is loaded without a server, to tell whether it can be.
//!
//! Invariant: the library reaches nothing but its interpreter, and ends within a minute.

use base::time::Clock;
use config::Config;
use proto::{Args, Output, Reply, Resp};
use script::{Fault, Host, Interpreter, Library, LogLevel, Replication, Stop, Version};

use super::interpreter::LIMITS;
use crate::runtime::version;
use crate::transaction::control_plane::NOT_FROM_SCRIPT;

/// A server loads what it once accepted however long that takes; an operator is told of it.
const TIME_US: i64 = 60_000_000;
const TOO_LONG: &[u8] = b"it has not registered its functions within a minute";

/// A host that does nothing.
struct NullHost {
    clock: Clock,
    /// On the monotonic clock, in microseconds.
    deadline_us: i64,
}

/// Says why a library cannot be loaded, if it cannot.
pub fn check_library(code: &[u8]) -> Result<(), String> {
    let said = |text: &[u8]| said_of(code, text);
    let library = Library::parse(code).map_err(|error| said(&error.text))?;
    let config = Config::new();
    let (text, number) = (version::of_redis(&config), version::number_of_redis(&config));
    let clock = Clock::system();
    let mut host = NullHost { deadline_us: clock.monotonic_us() + TIME_US, clock };
    match Interpreter::new(&Version { text, number }).load(&library, &mut host, LIMITS) {
        Ok(_) => Ok(()),
        Err(Fault::Error(error)) => Err(said(&error.text)),
        Err(Fault::Stop(_)) => Err(said(TOO_LONG)),
    }
}

/// What is told of a library that cannot be loaded: which one, if it says so.
pub fn said_of(code: &[u8], why: &[u8]) -> String {
    let why = String::from_utf8_lossy(why);
    match Library::parse(code) {
        Ok(library) => {
            let name = String::from_utf8_lossy(library.name()).into_owned();
            format!("the library of functions '{name}' fails: {why}")
        }
        Err(_) => format!("a library of functions fails: {why}"),
    }
}

impl Host for NullHost {
    fn call(&mut self, _: Args<'_>, resp: Resp, reply: &mut Output) -> Result<(), Stop> {
        Reply::new(reply, resp).error(NOT_FROM_SCRIPT.line().unwrap_or_default());
        Ok(())
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn set_replication(&mut self, _: Replication) {}

    fn note_returned_error(&mut self, _: &[u8], _: bool) {}

    fn may_call(&mut self, _: Args<'_>) -> Option<bool> {
        Some(true)
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        if self.clock.monotonic_us() > self.deadline_us { Err(Stop::Killed) } else { Ok(()) }
    }
}
