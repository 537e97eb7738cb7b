//! An engine for tests: all programs, the data commands of `commands`, and of the control commands
//! those that logs and streams hold.
//!
//! Invariant: nothing here is part of the product.

use std::sync::LazyLock;

use commands::DataCommand;
use commands::declare::{Arity, Command, Databases, Role, Spec, at_least, exactly};
use config::settings::DATABASES;
use config::{Config, SetError};
use keyspace::{Acquisition, Keyspace, Options, Refusal, Tx, TxOptions};
use proto::{Args, Output, OwnedArgs, Reply, Resp};

use crate::clients::mailbox::PendingWakes;
use crate::clients::registry::{Client, Delivery};
use crate::execute::Resolved;
use crate::runtime::background::{BackgroundAccess, wait_for};
use crate::runtime::lanes::LOADER_LANE;
use crate::runtime::log::Log;
use crate::runtime::system_limits;
use crate::scripting;
use crate::shared::Shared;
use crate::table::command_table::{CommandEntry, CommandTable, Families, Run};
use crate::transaction::control_plane::{
    ControlOutcome, ControlPlane, ControlRequest, NOT_FROM_SCRIPT,
};
use crate::transaction::engine::Engine;
use crate::transaction::unit::{self, Unit};

/// As the server declares them; replay does what they ask for.
const CONTROL: &[&Command<()>] = &[
    &SELECT,
    &control("MULTI", Role::Multi, exactly(1)),
    &control("DISCARD", Role::Discard, exactly(1)),
    &control("PING", Role::Ping, at_least(1)),
    &control("REPLCONF", Role::Replconf, at_least(1)),
    &control("PUBLISH", Role::Publish, exactly(3)),
    &control("SPUBLISH", Role::ShardPublish, exactly(3)),
];

const SELECT: Command<()> = {
    let command = control("SELECT", Role::Select, exactly(2));
    Command { spec: Spec { databases: Databases::At(&[1]), ..command.spec }, ..command }
};

const fn control(name: &'static str, role: Role, arity: Arity) -> Command<()> {
    Command { spec: Spec { name, role, arity, ..Spec::BASE }, subcommands: &[], run: () }
}

/// An engine with defaults, which nothing has run in.
pub fn engine() -> &'static Engine {
    let engine: &'static Engine = Box::leak(Box::new(new_engine(&[commands::FAMILIES])));
    engine.set_hooks();
    engine.set_control_plane(&NoControl);
    engine
}

/// A command as an engine of tests knows it. An engine is as large as a server, and is made once
/// for all callers.
pub fn entry(name: &str) -> &'static CommandEntry {
    static ENGINE: LazyLock<&Engine> = LazyLock::new(engine);
    ENGINE.table.find(name.as_bytes()).expect("it is a command")
}

/// An engine to build on, with these data commands.
pub fn new_engine(data: &'static [&'static [&'static [&'static DataCommand]]]) -> Engine {
    let config = Config::new();
    let log = Log::open(&config, false).expect("the default log is standard output");
    let families = Families {
        data,
        control: &[CONTROL],
        programs: &[unit::COMMANDS, scripting::COMMANDS[0], scripting::COMMANDS[1]],
        subcommands: &[],
    };
    let built = CommandTable::build(&families, &[]).expect("nothing is renamed");
    let databases = config.get(DATABASES) as usize;
    let clock = system_limits::choose_clock();
    let keyspace = Keyspace::leak(Options { databases, clock, ..Options::new() });
    let shared = Shared::new(config, built.table, log, keyspace, scripting::BETWEEN_JOBS);
    Engine::new(shared, built.programs)
}

/// What a client was sent and has not been written, one text each; a space stands for a line end.
pub fn read_messages(client: &Client) -> Vec<String> {
    let deliveries = client.take_deliveries();
    let messages = deliveries.iter().flat_map(Delivery::messages);
    messages.map(|bytes| String::from_utf8_lossy(bytes).replace("\r\n", " ")).collect()
}

/// Runs data commands as one transaction that a client asked for, in this database, with the world;
/// what they reply.
pub fn run_together(engine: &'static Engine, database: usize, commands: &[OwnedArgs]) -> Vec<u8> {
    let mut world = Acquisition::of_world(engine.keyspace);
    wait_for(&mut world);
    run_under(engine, world, (0, database), commands)
}

/// Runs a data command on one key with the locks of that alone, so beside others; what it replies.
/// No two threads may do so at a time.
pub fn run_beside(engine: &'static Engine, command: &OwnedArgs) -> Vec<u8> {
    let mut access = BackgroundAccess::wait(engine.keyspace);
    let key = &command.as_args()[1];
    let grant = access.acquire(engine.keyspace.locate(key).partition());
    run_under(engine, grant, (LOADER_LANE, 0), std::slice::from_ref(command))
}

fn run_under(
    engine: &'static Engine,
    grant: Acquisition,
    (lane, database): (usize, usize),
    commands: &[OwnedArgs],
) -> Vec<u8> {
    let internal = TxOptions::internal(lane, engine.keyspace.clock().now_ms());
    let options = TxOptions { database, heavy: true, touches: true, ..internal };
    let mut unit = Unit::begin(engine, Tx::begin(grant, options), None);
    let (mut replies, wakes) = (Vec::new(), PendingWakes::default());
    for command in commands {
        let (args, mut out) = (command.as_args(), Output::new());
        let Resolved { entry, .. } = Resolved::of(engine, args).expect("tests know their commands");
        let Run::Data(handler) = entry.run else { unreachable!("a test runs data commands") };
        unit.call(entry, handler, args, Resp::Two, &mut out).expect("it has all locks");
        replies.extend_from_slice(out.front());
    }
    unit.commit(&wakes).expect("it has all locks");
    engine.mailboxes.wake(&wakes);
    replies
}

/// A control plane without commands.
pub struct NoControl;

impl ControlPlane for NoControl {
    fn run(
        &'static self,
        _: ControlRequest<'_>,
        _: Args<'_>,
        _: &mut Reply<'_>,
    ) -> Result<ControlOutcome, Refusal> {
        Err(NOT_FROM_SCRIPT)
    }

    fn configure(&'static self, _: &[&[u8]], _: bool) -> Result<(), SetError> {
        unreachable!("no test of an engine changes its configuration by a command")
    }

    fn refresh_certificates(&'static self) -> Result<(), String> {
        unreachable!("no test of an engine has certificates")
    }
}
