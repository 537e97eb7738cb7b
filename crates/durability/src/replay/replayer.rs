//! Units are run again: their commands go through the handlers that ran them first. Of those of a
//! log nobody is told; how those of a primary's stream are committed is in `stream`.
//!
//! Invariants: what is run stands in a whole unit; keys and members whose time is over stay until
//! the source says that they go, since what comes next was run when they were there: the settings
//! must say that expiry is suspended.

use base::UnixMillis;
use commands::Role;
use commands::arguments::database;
use config::AofLoadErrors;
use config::settings::AOF_LOAD_ERRORS;
use engine::execute::Resolved;
use engine::runtime::background::wait_for;
use engine::runtime::lanes::LOADER_LANE;
use engine::runtime::log::log_warning;
use engine::scripting;
use engine::table::command_table::{CommandEntry, Run};
use engine::transaction::unit::{ProgramRequest, RunsOn, Unit};
use keyspace::{Acquisition, Notes, Refusal, Tx, TxOptions};
use persist::entry_notes::EntryNote;
use proto::{Args, Output, Progress, Reply, Resp};

use super::beside::{Beside, publication};
use super::partitioner::{Task, TaskCommands};
use super::read_ahead::Stopped;
use super::stream::{LIMITS, StreamThread};
use crate::durability::Durability;

/// Runs commands again.
pub(crate) struct Replayer<'s> {
    server: &'static Durability,
    unit: Unit,
    out: Output,
    /// What memcached's clients noted of the next string.
    flags: u32,
    /// Where they come from, if that is a primary.
    stream: Option<&'s StreamThread>,
}

impl<'s> Replayer<'s> {
    /// Waits until it has the world. All it runs is run at this time.
    pub(crate) fn begin(server: &'static Durability, now: UnixMillis) -> Self {
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        Self::with(server, Tx::begin(world, options(LOADER_LANE, now)), Output::new())
    }

    /// On a transaction that has all that its commands touch. The output is used again.
    pub(crate) fn with(server: &'static Durability, tx: Tx, out: Output) -> Self {
        Self { server, unit: Unit::begin(server, tx, None), out, flags: 0, stream: None }
    }

    /// Runs a unit of a primary's stream as one transaction, under these locks, which are there,
    /// and commits it: readers see all of it or none, and those who wait, watch, listen or keep
    /// copies are told. Its bytes are for the caller to append; `with_locks` is called in time for
    /// those who must not give the locks back before. Returns the locks that it turned out to need;
    /// then it has done nothing.
    pub(crate) fn apply(
        server: &'static Durability,
        stream: &'s StreamThread,
        (task, bytes): (&Task, &[u8]),
        grant: Acquisition,
        out: &mut Output,
        with_locks: impl FnOnce(),
    ) -> Result<Option<Acquisition>, Stopped> {
        let options = options(stream.lane, stream.now.get());
        let tx = Tx::begin(grant, TxOptions { touches: true, ..options });
        let plain = Self::with(server, tx, std::mem::take(out));
        let mut replayer = Self { stream: Some(stream), ..plain };
        let ran = replayer.run(task, bytes);
        // What was done of a unit that fails is there all the same.
        let committed = replayer.unit.commit_applied(&stream.wakes, stream.lsn_of(task.end));
        if ran.is_ok() && committed.is_ok() {
            with_locks();
        }
        *out = replayer.out;
        match committed {
            Ok(()) => ran.map(|()| None),
            Err(_) => Ok(Some(replayer.unit.tx.widen(0))),
        }
    }

    /// The same for a unit that needs the locks of its keys, and waits for them: the caller keeps
    /// the world from being stopped, so those that have them go on.
    pub(super) fn apply_in_turn(
        server: &'static Durability,
        stream: &'s StreamThread,
        (task, bytes): (&Task, &[u8]),
        out: &mut Output,
    ) -> Result<(), Stopped> {
        let mut grant = Acquisition::of_partitions(server.keyspace, task.partitions.clone());
        loop {
            if !grant.attempt() {
                wait_for(&mut grant);
            }
            match Self::apply(server, stream, (task, bytes), grant, out, || ())? {
                None => return Ok(()),
                Some(more) if more.wants_world() => {
                    return Err(Stopped::Alone("a unit cannot be run beside others".to_owned()));
                }
                // A waiter is to be served whose other keys lie elsewhere.
                Some(more) => grant = more,
            }
        }
    }

    /// The transaction, when it has run all it should.
    pub(crate) fn into_transaction(self) -> Tx {
        self.unit.tx
    }

    /// The output, when it has run all it should.
    pub(crate) fn into_output(self) -> Output {
        self.out
    }

    /// Runs the commands of a unit, which came in these bytes if it lies in any. The error says
    /// where and why that cannot be.
    pub(crate) fn run(&mut self, task: &Task, bytes: &[u8]) -> Result<(), Stopped> {
        self.unit.tx.switch_database(task.state.database);
        self.flags = task.state.flags;
        let mut resolved = task.resolved;
        let ran = match &task.commands {
            TaskCommands::Own(commands) => commands
                .iter()
                .try_for_each(|command| self.run_one(command.as_args(), resolved.take())),
            TaskCommands::Within(place) => self.run_within(&bytes[place.clone()], resolved),
        };
        let told = |why| format!("at offset {}: {why}", task.offset);
        ran.map_err(|stopped| match stopped {
            Stopped::Malformed(why) => Stopped::Malformed(told(why)),
            Stopped::Refused(why) => Stopped::Refused(told(why)),
            Stopped::Alone(why) => Stopped::Alone(why),
        })
    }

    /// Runs the command that these bytes are.
    fn run_within(&mut self, bytes: &[u8], resolved: Option<Resolved>) -> Result<(), Stopped> {
        let unread = || Stopped::Malformed("a command that cannot be read".to_owned());
        let stream = self.stream.ok_or_else(unread)?;
        let mut parser = stream.parser.borrow_mut();
        parser.reset();
        match parser.advance(bytes, &LIMITS) {
            Ok(Progress::Complete { .. }) => self.run_one(parser.args(bytes), resolved),
            _ => Err(unread()),
        }
    }

    fn run_one(&mut self, args: Args<'_>, resolved: Option<Resolved>) -> Result<(), Stopped> {
        if let Some(note) = entry_note(args) {
            self.take_note(&note);
            return Ok(());
        }
        let flags = std::mem::take(&mut self.flags);
        if let Some(beside) = Beside::of(args) {
            if let Beside::Message(space, channel, message) = beside
                && self.stream.is_some()
            {
                self.unit.publish(publication(space, channel, message));
            }
            return Ok(());
        }
        let resolved = resolved.or_else(|| Resolved::of_record(self.server, args));
        let resolved = resolved
            .ok_or_else(|| Stopped::Malformed(format!("Unknown command '{}'", text(&args[0]))))?;
        let Resolved { entry, location } = resolved;
        if !entry.spec.arity.admits(args.len()) {
            let why = format!("Wrong number of arguments for '{}'", entry.full_name);
            return Err(Stopped::Malformed(why));
        }
        if self.stream.is_some() && !is_streamed(entry) {
            let why = format!("'{}' is no command of a stream", entry.full_name);
            return Err(Stopped::Malformed(why));
        }
        if let Some(location) = location.filter(|_| entry.has_first_key) {
            self.unit.tx.hint(&args[1], location);
        }
        if let Err(refusal) = self.dispatch(entry, args) {
            self.unit.refuse(&refusal, &mut Reply::new(&mut self.out, Resp::Two));
        } else if flags != 0 && entry.spec.role == Role::StoreText {
            let noted = self.unit.tx.set_notes(&args[1], Notes::of_flags(flags));
            noted.expect("the key is granted, as it was just set");
        }
        // The bytes of the next command may lie where these lie.
        self.unit.tx.forget_hint();
        self.out.finish();
        let is_error = self.out.front().first() == Some(&b'-');
        match self.stream {
            None => self.unit.book_alone(),
            Some(stream) => stream.book(self.unit.tx.database(), entry, args, is_error),
        }
        let checked = if is_error { self.heed_error(entry) } else { Ok(()) };
        self.out.clear();
        checked
    }

    /// Heeds what an entry notes that is none of Redis.
    fn take_note(&mut self, note: &EntryNote<'_>) {
        match *note {
            EntryNote::Flags(flags) => self.flags = flags,
            EntryNote::Sticks(key, is_sticky) => {
                self.unit.tx.set_sticky(key, is_sticky).expect("its key is granted");
                if self.stream.is_none() {
                    self.unit.book_alone();
                }
            }
        }
    }

    /// A command was answered with an error, so what it did where it was written is not there.
    #[cold]
    fn heed_error(&self, entry: &CommandEntry) -> Result<(), Stopped> {
        let (log, answer) = (&self.server.log, text(self.out.front()));
        let (answer, name) = (answer.trim_end(), &entry.full_name);
        let is_refused = match self.stream {
            None => self.server.config.get(AOF_LOAD_ERRORS) == AofLoadErrors::Refuse,
            // What comes next would change another database.
            Some(stream) => stream.refuses_errors() || entry.spec.role == Role::Select,
        };
        let (own, other) = match self.stream {
            None => ("server", "AOF-loading-client"),
            Some(_) => ("replica", "master"),
        };
        if self.stream.is_none() && is_refused {
            return Err(Stopped::Refused(format!("'{name}' is answered with '{answer}'")));
        }
        log_warning!(
            log,
            "== CRITICAL == This {own} is sending an error to its {other}: '{answer}' after \
             processing the command '{name}'"
        );
        if is_refused {
            return Err(Stopped::Refused(format!("'{name}' is answered with '{answer}'")));
        }
        Ok(())
    }

    fn dispatch(&mut self, entry: &'static CommandEntry, args: Args<'_>) -> Result<(), Refusal> {
        match entry.run {
            Run::Data(handler) => {
                let (unit, out) = (&mut self.unit, &mut self.out);
                unit.call(entry, handler, args, Resp::Two, out).map(|_| ())
            }
            Run::Unit => {
                let (server, resp) = (self.server, Resp::Two);
                let shortage = Some(self.unit.shortage());
                let asked =
                    ProgramRequest { server, entry, resp, subject: None, shortage, session: None };
                let mut program = server.prepare(entry, asked, args)?;
                program.run(args, &mut self.unit, &mut RunsOn::Heavy, &mut self.out)
            }
            Run::Control if entry.spec.role == Role::Select => {
                let count = self.server.keyspace.database_count();
                self.unit.tx.switch_database(database(&args[1], count)?);
                Ok(())
            }
            Run::Control => scripting::replay(self.server, entry, args),
        }
    }
}

/// Whether a command may stand in a primary's stream: it changes data, or the libraries.
fn is_streamed(entry: &CommandEntry) -> bool {
    let changes_libraries = matches!(
        entry.spec.role,
        Role::DeleteLibrary
            | Role::FlushLibraries
            | Role::LoadLibrary
            | Role::RestoreLibraries
            | Role::Select
    );
    !matches!(entry.run, Run::Control) || changes_libraries
}

/// How transactions are begun that run a log.
pub(crate) fn options(lane: usize, now: UnixMillis) -> TxOptions {
    TxOptions { sees_expired: true, heavy: true, ..TxOptions::internal(lane, now) }
}

/// What a command says that is none of Redis.
pub(crate) fn entry_note(args: Args<'_>) -> Option<EntryNote<'_>> {
    let is_echo = args.len() == 2 && args[0].eq_ignore_ascii_case(b"ECHO");
    is_echo.then(|| EntryNote::parse(args.get(1)?)).flatten()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
