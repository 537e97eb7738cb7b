//! The append-only file is run again: its commands go through the handlers that ran them first,
//! with nobody to tell.
//!
//! Invariants: what is run stands in a whole unit of the file; keys and members whose time is over
//! stay until the file says that they go, since what comes next was run when they were there: the
//! settings must say that expiry is suspended.

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
use proto::{Args, Output, Reply, Resp};

use super::partitioner::Task;
use super::read_ahead::Stopped;
use crate::durability::Durability;

/// Runs commands again.
pub(crate) struct Replayer {
    server: &'static Durability,
    unit: Unit,
    out: Output,
    /// What memcached's clients noted of the next string.
    flags: u32,
}

impl Replayer {
    /// Waits until it has the world. All it runs is run at this time.
    pub(crate) fn begin(server: &'static Durability, now: UnixMillis) -> Self {
        let mut world = Acquisition::of_world(server.keyspace);
        wait_for(&mut world);
        Self::with(server, Tx::begin(world, options(LOADER_LANE, now)), Output::new())
    }

    /// On a transaction that has all that its commands touch. The output is used again.
    pub(crate) fn with(server: &'static Durability, tx: Tx, out: Output) -> Self {
        Self { server, unit: Unit::begin(server, tx, None), out, flags: 0 }
    }

    /// The transaction, when it has run all it should.
    pub(crate) fn into_transaction(self) -> Tx {
        self.unit.tx
    }

    /// The output, when it has run all it should.
    pub(crate) fn into_output(self) -> Output {
        self.out
    }

    /// Runs the commands of a unit. The error says where and why that cannot be.
    pub(crate) fn run(&mut self, task: &Task) -> Result<(), Stopped> {
        self.unit.tx.switch_database(task.state.database);
        self.flags = task.state.flags;
        let mut resolved = task.resolved;
        for command in &task.unit.commands {
            let ran = self.run_one(command.as_args(), resolved.take());
            let told = |why| format!("at offset {}: {why}", task.unit.offset);
            ran.map_err(|stopped| match stopped {
                Stopped::Malformed(why) => Stopped::Malformed(told(why)),
                Stopped::Refused(why) => Stopped::Refused(told(why)),
                Stopped::Alone(why) => Stopped::Alone(why),
            })?;
        }
        Ok(())
    }

    fn run_one(&mut self, args: Args<'_>, resolved: Option<Resolved>) -> Result<(), Stopped> {
        match entry_note(args) {
            Some(EntryNote::Flags(flags)) => {
                self.flags = flags;
                return Ok(());
            }
            Some(EntryNote::Sticks(key, is_sticky)) => {
                self.unit.tx.set_sticky(key, is_sticky).expect("its key is granted");
                self.unit.book_alone();
                return Ok(());
            }
            None => {}
        }
        let flags = std::mem::take(&mut self.flags);
        let resolved = resolved.or_else(|| Resolved::of_record(self.server, args));
        let resolved = resolved
            .ok_or_else(|| Stopped::Malformed(format!("Unknown command '{}'", text(&args[0]))))?;
        let Resolved { entry, location } = resolved;
        if !entry.spec.arity.admits(args.len()) {
            let why = format!("Wrong number of arguments for '{}'", entry.full_name);
            return Err(Stopped::Malformed(why));
        }
        if let Some(location) = location.filter(|_| entry.has_first_key) {
            self.unit.tx.hint(&args[1], location);
        }
        if let Err(refusal) = self.dispatch(entry, args) {
            self.server.refuse(&refusal, &mut Reply::new(&mut self.out, Resp::Two));
        } else if flags != 0 && entry.spec.role == Role::StoreText {
            let noted = self.unit.tx.set_notes(&args[1], Notes::of_flags(flags));
            noted.expect("the key is granted, as it was just set");
        }
        self.unit.book_alone();
        self.out.finish();
        let is_error = self.out.front().first() == Some(&b'-');
        let checked = if is_error { self.heed_error(entry) } else { Ok(()) };
        self.out.clear();
        checked
    }

    /// A command was answered with an error, so what it did where it was written is not there.
    #[cold]
    fn heed_error(&self, entry: &CommandEntry) -> Result<(), Stopped> {
        let answer = text(self.out.front());
        let (answer, name) = (answer.trim_end(), &entry.full_name);
        if self.server.config.get(AOF_LOAD_ERRORS) == AofLoadErrors::Refuse {
            return Err(Stopped::Refused(format!("'{name}' is answered with '{answer}'")));
        }
        log_warning!(
            self.server.log,
            "== CRITICAL == This server is sending an error to its AOF-loading-client: '{answer}' \
             after processing the command '{name}'"
        );
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
