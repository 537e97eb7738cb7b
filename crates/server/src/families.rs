//! Every family of commands that the server has beyond the data commands of crate `commands`.
//!
//! Invariant: a command that no family here and none of `commands` holds does not exist; the order
//! is the order of ids, and that of COMMAND.

use crate::control;
use crate::control::context::ControlHandler;
use durability::data;
use engine::scripting;
use engine::table::command_table::Families;
use engine::transaction::unit;
use engine::transaction::unit::Prepare;

/// What the table of commands is made of.
pub(crate) const FAMILIES: Families<ControlHandler, Prepare> = Families {
    data: &[data::COMMANDS],
    control: &[
        control::acl::COMMANDS,
        control::cluster::COMMANDS,
        control::connection::COMMANDS,
        control::fieldsets::COMMANDS,
        control::module::COMMANDS,
        control::pubsub::COMMANDS,
        control::replication::COMMANDS,
        control::server::COMMANDS,
        control::scripting::COMMANDS[0],
        control::scripting::COMMANDS[1],
        control::transactions::COMMANDS,
    ],
    programs: &[unit::COMMANDS, scripting::COMMANDS[0], scripting::COMMANDS[1]],
};
