//! Units are run again: their commands go through the handlers that ran them first. Of those of a
//! log nobody is told; how those of a primary's stream are committed is in `stream`.
//!
//! Invariants: what is run stands in a whole unit; keys and members whose time is over stay until
//! the source says that they go, since what comes next was run when they were there: the settings
//! must say that expiry is suspended.

use base::UnixMillis;
use commands::arguments::database;
use commands::errors::TRANSACTION_DISCARDED;
use commands::{Role, errors};
use config::AofLoadErrors;
use config::settings::AOF_LOAD_ERRORS;
use engine::commit::served_request::ServedRequest;
use engine::execute::Resolved;
use engine::limits::slot_map::SlotAccess;
use engine::runtime::background::wait_for;
use engine::runtime::lanes::LOADER_LANE;
use engine::runtime::log::log_warning;
use engine::scripting;
use engine::table::command_table::{CommandEntry, Run};
use engine::transaction::unit::{ProgramRequest, RunsOn, Unit};
use keyspace::{Acquisition, HeldLocks, ItemNotes, Lsn, Refusal, Tx, TxOptions};
use persist::entry_notes::EntryNote;
use proto::{Args, Limits, Output, OwnedArgs, Progress, Reply, Resp};

use super::non_data_commands::{NonDataCommand, publication};
use super::partitioner::{Task, TaskCommands};
use super::read_ahead::ReplayStop;
use super::stream::StreamThread;
use super::stream_errors::{UnitErrors, UnitPlace};
use crate::aof::AofState;
use crate::durability::Durability;

/// Runs commands again.
pub(crate) struct Replayer<'s> {
    server: &'static Durability,
    unit: Unit,
    out: Output,
    /// What memcached's clients noted of the next string.
    flags: u32,
    /// Where they come from, if that is a primary,
    stream: Option<&'s StreamThread>,
    /// and what failed of the present unit then.
    errors: UnitErrors,
    /// Whether that is a transaction.
    is_transaction: bool,
}

/// What came of a unit of a stream.
pub(crate) enum Applied {
    /// All is done, under these locks.
    Done(Acquisition),
    /// Nothing is: these locks turned out to be needed.
    Needs(Acquisition),
}

/// Why a command is not run.
enum NotReplayable {
    /// There is none of this name.
    Unknown,
    /// So many arguments it does not take.
    Arity(&'static CommandEntry),
    /// The command changes no data.
    Beside(&'static CommandEntry),
    /// The command begins or ends a transaction where none may: its name, and its reply.
    Misplaced(&'static str, &'static str),
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
        let mut unit = Unit::begin(server, tx, None);
        unit.set_must_obey();
        Self {
            server,
            unit,
            out,
            flags: 0,
            stream: None,
            errors: UnitErrors::default(),
            is_transaction: false,
        }
    }

    /// Runs a unit of a primary's stream as one transaction, under these locks, which are there,
    /// and commits it: readers see all of it or none, and clients that wait, watch, listen or keep
    /// copies are told. A command that fails is told of, and passed over. Its bytes are for the
    /// caller to append; `with_locks` is called in time for callers that must not give the locks
    /// back before, with the record of what waiters took; the LSN that the journal has then is what
    /// readers of the keys wait for.
    pub(crate) fn apply(
        server: &'static Durability,
        stream: &'s StreamThread,
        (task, bytes): (&Task, &[u8]),
        grant: Acquisition,
        out: &mut Output,
        with_locks: impl FnOnce(&[u8]) -> Option<Lsn>,
    ) -> Result<Applied, ReplayStop> {
        let options = options(stream.lane, stream.now.get());
        let tx = Tx::begin(grant, TxOptions { unrecorded: true, ..options });
        let plain = Self::with(server, tx, std::mem::take(out));
        let mut replayer = Self { stream: Some(stream), ..plain };
        let mut ran = replayer.run(task, bytes);
        // What was done of a unit that fails is there all the same.
        let committed = replayer.unit.commit_applied(&stream.wakes, stream.lsn_of(task.end));
        if let Ok(taken) = &committed {
            let errors = replayer.errors;
            let commands = match &task.commands {
                TaskCommands::Own(commands) => &**commands,
                TaskCommands::Within(_) => &[],
            };
            let databases = [task.state.database, task.selects];
            let offsets = task.offset..task.end;
            let place = UnitPlace { offsets, piece: bytes, databases, commands };
            ran = ran.and_then(|()| errors.report(stream, &place).map_err(ReplayStop::Panicked));
            if ran.is_ok()
                && let Some(lsn) = with_locks(taken)
            {
                replayer.unit.tx.stamp_lsn(lsn);
            }
        }
        *out = replayer.out;
        match committed {
            Ok(_) => ran.map(|()| Applied::Done(replayer.unit.tx.into_grant())),
            Err(_) => Ok(Applied::Needs(replayer.unit.tx.widen(0))),
        }
    }

    /// The same for a unit of which nobody waits for a key, under locks that are held already.
    pub(super) fn apply_beside(
        server: &'static Durability,
        stream: &'s StreamThread,
        (task, bytes): (&Task, &[u8]),
        locks: &mut HeldLocks,
        out: &mut Output,
    ) -> Result<(), ReplayStop> {
        let alone = || ReplayStop::Alone("a unit cannot be run beside others".to_owned());
        let grant = locks.lend(&task.partitions).ok_or_else(alone)?;
        match Self::apply(server, stream, (task, bytes), grant, out, |_| None)? {
            Applied::Done(grant) => {
                locks.take_back(grant);
                Ok(())
            }
            Applied::Needs(_) => Err(alone()),
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
    pub(crate) fn run(&mut self, task: &Task, bytes: &[u8]) -> Result<(), ReplayStop> {
        self.unit.tx.switch_database(task.state.database);
        self.flags = task.state.flags;
        let mut resolved = task.resolved;
        let ran = match &task.commands {
            TaskCommands::Own(commands) if self.stream.is_some() => {
                // What is no command needs the world, as nobody knows what it touches.
                self.run_transaction(commands, task.needs_world)
            }
            TaskCommands::Own(commands) => commands
                .iter()
                .try_for_each(|command| self.run_one(command.as_args(), resolved.take(), 0)),
            TaskCommands::Within(place) => self.run_within(&bytes[place.clone()], resolved),
        };
        let told = |why| format!("at offset {}: {why}", task.offset);
        ran.map_err(|stopped| match stopped {
            ReplayStop::Malformed(why) => ReplayStop::Malformed(told(why)),
            ReplayStop::Refused(why) => ReplayStop::Refused(told(why)),
            other => other,
        })
    }

    /// Runs a transaction of a stream. As where a client sends it, nothing of it is run if one of
    /// its commands is none; `may_be_odd` says whether one may be.
    fn run_transaction(
        &mut self,
        commands: &[OwnedArgs],
        may_be_odd: bool,
    ) -> Result<(), ReplayStop> {
        self.is_transaction = true;
        let all = || commands.iter().map(OwnedArgs::as_args).enumerate();
        for (index, args) in all().filter(|_| may_be_odd) {
            let resolved = Resolved::of_record(self.server, args);
            let Err(reason) = self.admit(args, resolved) else { continue };
            if !matches!(reason, NotReplayable::Beside(_)) {
                self.errors.is_thrown_away |= !matches!(reason, NotReplayable::Misplaced(..));
                self.refuse_not_replayable(&reason, args, index);
            }
        }
        if self.errors.is_thrown_away {
            self.unit.refuse(&TRANSACTION_DISCARDED, &mut Reply::new(&mut self.out, Resp::Two));
            self.out.finish();
            self.errors.add("exec", self.out.front());
            self.out.clear();
            return Ok(());
        }
        for (index, args) in all() {
            if !self.errors.has_failed(index) {
                self.run_one(args, None, index)?;
            }
        }
        Ok(())
    }

    /// Runs the command that these bytes are.
    fn run_within(&mut self, bytes: &[u8], resolved: Option<Resolved>) -> Result<(), ReplayStop> {
        let unread = || ReplayStop::Malformed("a command that cannot be read".to_owned());
        let stream = self.stream.ok_or_else(unread)?;
        let mut parser = stream.parser.borrow_mut();
        parser.reset();
        match parser.advance(bytes, &Limits::OF_PRIMARY) {
            Ok(Progress::Complete { .. }) => self.run_one(parser.args(bytes), resolved, 0),
            _ => Err(unread()),
        }
    }

    /// Runs a command, which is this one of its unit.
    fn run_one(
        &mut self,
        args: Args<'_>,
        resolved: Option<Resolved>,
        index: usize,
    ) -> Result<(), ReplayStop> {
        if let Some(note) = EntryNote::of(args) {
            self.take_note(&note);
            return Ok(());
        }
        let flags = std::mem::take(&mut self.flags);
        let resolved = resolved.or_else(|| Resolved::of_record(self.server, args));
        let role = resolved.map_or(Role::Any, |resolved| resolved.entry.spec.role);
        if let Some(beside) = NonDataCommand::of(role, args) {
            if self.stream.is_some() {
                self.run_beside(&beside);
            }
            return Ok(());
        }
        let Resolved { entry, location } = match self.admit(args, resolved) {
            Ok(resolved) => resolved,
            Err(reason) if self.stream.is_some() => {
                self.refuse_not_replayable(&reason, args, index);
                return Ok(());
            }
            Err(reason) => return Err(ReplayStop::Malformed(reason.text(args))),
        };
        if let Some(location) = location.filter(|_| entry.has_first_key) {
            self.unit.tx.hint(&args[1], location);
        }
        if let Err(refusal) = self.dispatch(entry, args) {
            self.unit.refuse(&refusal, &mut Reply::new(&mut self.out, Resp::Two));
        } else if flags != 0 && entry.spec.role == Role::StoreText {
            let noted = self.unit.tx.set_notes(&args[1], ItemNotes::of_flags(flags));
            noted.expect("the key is granted, as it was just set");
        }
        // The bytes of the next command may lie where these lie.
        self.unit.tx.forget_hint();
        self.out.finish();
        let is_error = self.out.front().first() == Some(&b'-');
        match self.stream {
            None => self.unit.count_unpublished(),
            Some(stream) => stream.account(self.unit.tx.database(), entry, args, is_error),
        }
        let checked = if is_error { self.handle_error(entry, index) } else { Ok(()) };
        self.out.clear();
        checked
    }

    /// Does what a command of a stream does beside the data.
    fn run_beside(&mut self, command: &NonDataCommand<'_>) {
        match *command {
            NonDataCommand::Nothing => {}
            NonDataCommand::Message(space, channel, message) => {
                self.unit.publish(publication(space, channel, message));
            }
            NonDataCommand::TakeOver(node) => {
                if let Some(duties) = self.server.cluster_duties.get() {
                    duties.take_over(node);
                }
            }
        }
    }

    /// Whether a command may be run.
    #[inline]
    fn admit(&self, args: Args<'_>, resolved: Option<Resolved>) -> Result<Resolved, NotReplayable> {
        match resolved {
            None => Err(NotReplayable::Unknown),
            Some(Resolved { entry, .. }) if !entry.spec.arity.admits(args.len()) => {
                Err(NotReplayable::Arity(entry))
            }
            Some(Resolved { entry, .. }) if self.stream.is_some() && !is_streamed(entry) => {
                Err(NotReplayable::of_beside(entry))
            }
            Some(resolved) => Ok(resolved),
        }
    }

    /// A command of a stream is not run; the answer has no reader.
    #[cold]
    fn refuse_not_replayable(&mut self, reason: &NotReplayable, args: Args<'_>, index: usize) {
        let name = match reason {
            NotReplayable::Unknown => "<unknown>",
            NotReplayable::Misplaced(name, _) => name,
            NotReplayable::Arity(entry) | NotReplayable::Beside(entry) => &entry.full_name,
        };
        let refusal = reason.refusal(self.server, args);
        self.unit.refuse(&refusal, &mut Reply::new(&mut self.out, Resp::Two));
        self.out.finish();
        self.errors.note(index, name, self.out.front());
        self.out.clear();
    }

    /// Heeds what an entry notes that is none of Redis.
    fn take_note(&mut self, note: &EntryNote<'_>) {
        match *note {
            EntryNote::Flags(flags) => self.flags = flags,
            EntryNote::CopiedSlots(slots) => self.server.gates.copied_slots.replace(slots),
            EntryNote::Sticks(key, is_sticky) => {
                self.unit.tx.set_sticky(key, is_sticky).expect("its key is granted");
                if self.stream.is_none() {
                    self.unit.count_unpublished();
                }
            }
        }
    }

    /// A command was answered with an error, so what it did where it was written is not there.
    #[cold]
    fn handle_error(&mut self, entry: &CommandEntry, index: usize) -> Result<(), ReplayStop> {
        if self.stream.is_some() {
            let name = if self.is_transaction { "exec" } else { &entry.full_name };
            self.errors.note(index, name, self.out.front());
            if matches!(entry.run, Run::Unit) && self.server.aof.phase() != AofState::Off {
                // What a script did before it failed the log lacks until it has a new base.
                self.server.aof.rewrite.schedule();
            }
            return Ok(());
        }
        let (answer, name) = (text(self.out.front()), &entry.full_name);
        let answer = answer.trim_end();
        if self.server.config.get(AOF_LOAD_ERRORS) == AofLoadErrors::Refuse {
            return Err(ReplayStop::Refused(format!("'{name}' is answered with '{answer}'")));
        }
        self.server.aof.note_passed_over();
        log_warning!(
            self.server.log,
            "== CRITICAL == This server is sending an error to its AOF-loading-client: '{answer}' \
             after processing the command '{name}'"
        );
        Ok(())
    }

    fn dispatch(&mut self, entry: &'static CommandEntry, args: Args<'_>) -> Result<(), Refusal> {
        let served = ServedRequest { server: self.server, client: None, entry, args };
        served.serve(|| self.run_entry(entry, args))
    }

    fn run_entry(&mut self, entry: &'static CommandEntry, args: Args<'_>) -> Result<(), Refusal> {
        match entry.run {
            Run::Data(handler) => {
                let (unit, out) = (&mut self.unit, &mut self.out);
                unit.call(entry, handler, args, Resp::Two, out).map(|_| ())
            }
            Run::Unit => {
                let (server, resp) = (self.server, Resp::Two);
                let initial_refusals = Some(self.unit.initial_refusals());
                let access = SlotAccess::default();
                let asked = ProgramRequest {
                    server,
                    entry,
                    resp,
                    subject: None,
                    access,
                    initial_refusals,
                    wants_debugger: false,
                    session: None,
                };
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

impl NotReplayable {
    /// A command that changes no data: words of transactions are told of as where clients send
    /// them. EXEC, which is run, refuses itself.
    #[cold]
    fn of_beside(entry: &'static CommandEntry) -> Self {
        match entry.spec.role {
            Role::Multi => Self::Misplaced("multi", "ERR MULTI calls can not be nested"),
            Role::Discard => Self::Misplaced("discard", "ERR DISCARD without MULTI"),
            _ => Self::Beside(entry),
        }
    }

    /// What is told of a log that has such a command.
    fn text(&self, args: Args<'_>) -> String {
        match self {
            Self::Unknown | Self::Misplaced(..) => format!("Unknown command '{}'", text(&args[0])),
            Self::Arity(entry) => format!("Wrong number of arguments for '{}'", entry.full_name),
            Self::Beside(entry) => format!("'{}' is no command of a stream", entry.full_name),
        }
    }

    /// What a client is answered that sends it.
    fn refusal(&self, server: &'static Durability, args: Args<'_>) -> Refusal {
        match self {
            Self::Unknown => match server.table.resolve(args) {
                Err(refusal) => refusal,
                Ok(entry) => errors::wrong_arity(&entry.full_name),
            },
            Self::Arity(entry) => errors::wrong_arity(&entry.full_name),
            Self::Misplaced(_, answer) => Refusal::error(answer),
            Self::Beside(_) => Refusal::error("ERR it is no command of a stream"),
        }
    }
}

/// Whether a command may stand in a primary's stream, as it changes data, or the libraries.
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

/// How transactions are begun that run a log. What is changed counts as used, as where it was
/// written: a key is as idle as its last command says.
pub(crate) fn options(lane: usize, now: UnixMillis) -> TxOptions {
    TxOptions { sees_expired: true, touches: true, heavy: true, ..TxOptions::internal(lane, now) }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
