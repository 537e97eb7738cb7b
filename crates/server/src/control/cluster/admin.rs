//! The commands that change the cluster.
//!
//! Invariant: an order is carried out with the world stopped, and counts for all clients when it is
//! answered.

use std::net::IpAddr;
use std::sync::atomic::Ordering;

use base::number::parse_i64;
use cluster::{AdminCommand, FailoverMode, SetSlotAction, Slot, SlotSet};
use commands::arguments::is;
use commands::errors::{NOT_AN_INTEGER, SYNTAX, wrong_arity};
use engine::clients::mailbox::PendingWakes;
use engine::commit::publish::commit;
use engine::reclaim::slots::has_copies;
use engine::runtime::background::wait_for_client;
use keyspace::{Acquisition, Refusal, Tx, TxOptions};
use proto::{Args, Reply};

use super::commands::enabled;
use super::parse::{self, ParsedSlots};
use crate::cluster::{DataBehindOrder, MoveDirection, World};
use crate::control::context::{Context, Next};
use crate::server::Server;

/// So far above the port for clients is that of the bus, unless it is named.
const BUS_OFFSET: i64 = 10_000;

/// Carries out an order that is made when the world is stopped.
fn execute(
    context: &mut Context<'_>,
    reply: &mut Reply<'_>,
    make: impl FnOnce(&'static Server) -> AdminCommand + Send + 'static,
) -> Result<Next, Refusal> {
    let server = enabled(context)?;
    let Some(unit) = &mut context.unit else {
        return Ok(Next::offload_with_locks(move |lane, _, reply| {
            let mut world = Acquisition::of_world(server.keyspace);
            wait_for_client(server.keyspace, &mut world)?;
            let order = make(server);
            let data = submit(server, &order, reply)?;
            let change = DataChange { lane, may_release_world: true, data };
            drop(apply_to_data(server, change, world));
            Ok(())
        }));
    };
    unit.tx.require_world()?;
    let order = make(server);
    let data = submit(server, &order, reply)?;
    let (lane, may_release_world) = (unit.tx.lane(), unit.may_release_world());
    let change = DataChange { lane, may_release_world, data };
    unit.tx.lend_world(|world| (apply_to_data(server, change, world), ()));
    Ok(Next::Done)
}

/// How the data are brought in line with an order.
struct DataChange {
    /// The lane of the thread that does it.
    lane: usize,
    /// Whether the world may be let go of meanwhile.
    may_release_world: bool,
    /// What the order has left of them.
    data: DataBehindOrder,
}

/// Has the data follow what was ordered, before the order is answered: the role, and of a replica
/// that was reset, or replicates nobody any more, that nothing is left.
fn apply_to_data(
    server: &'static Server,
    DataChange { lane, may_release_world, data }: DataChange,
    world: Acquisition,
) -> Acquisition {
    let world = server.cluster_start().apply_role(world, may_release_world);
    if data == DataBehindOrder::Kept || server.keyspace.is_empty() {
        return world;
    }
    let internal = TxOptions::internal(lane, server.keyspace.clock().now_ms());
    let mut tx = Tx::begin(world, TxOptions { heavy: true, ..internal });
    tx.flush_all().expect("the world is held");
    tx.note_flush();
    tx.effects_mut().instead(&[b"FLUSHALL"]);
    let wakes = PendingWakes::default();
    commit(server, &wakes, &mut tx, Args::default()).expect("the world is wide enough");
    server.mailboxes.wake(&wakes);
    tx.into_grant()
}

/// Gives an order, with the world stopped.
fn submit(
    server: &'static Server,
    order: &AdminCommand,
    reply: &mut Reply<'_>,
) -> Result<DataBehindOrder, Refusal> {
    let refusal = whole_move_beside(server, order).or_else(|| refuse_copies(server, order));
    if let Some(refusal) = refusal {
        return Err(refusal);
    }
    let epoch = || server.cluster.with_engine(|cluster| cluster.my_epoch()).unwrap_or(0);
    let before = epoch();
    let done = server.cluster.order(server, order, World::Stopped);
    let data = done.map_err(|why| Refusal::owned(format!("ERR {why}")))?;
    match order {
        AdminCommand::BumpEpoch if epoch() == before => reply.simple(format!("STILL {before}")),
        AdminCommand::BumpEpoch => reply.simple(format!("BUMPED {}", epoch())),
        _ => reply.ok(),
    }
    Ok(data)
}

fn has_keys(server: &Server) -> bool {
    !server.keyspace.is_empty()
}

pub(super) fn add_slots(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let named = parse::slots(args.skip(2))?;
    change_slots(context, reply, named, AdminCommand::AddSlots)
}

pub(super) fn delete_slots(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    let named = parse::slots(args.skip(2))?;
    change_slots(context, reply, named, AdminCommand::DelSlots)
}

pub(super) fn add_slot_ranges(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    even(context, args)?;
    let named = parse::slot_ranges(args.skip(2))?;
    change_slots(context, reply, named, AdminCommand::AddSlots)
}

pub(super) fn delete_slot_ranges(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    even(context, args)?;
    let named = parse::slot_ranges(args.skip(2))?;
    change_slots(context, reply, named, AdminCommand::DelSlots)
}

/// Orders what is to become of slots. As in Redis, what is wrong with the slots named first is said
/// before what is named twice.
fn change_slots(
    context: &mut Context<'_>,
    reply: &mut Reply<'_>,
    ParsedSlots { slots, duplicate }: ParsedSlots,
    order: fn(SlotSet) -> AdminCommand,
) -> Result<Next, Refusal> {
    let server = enabled(context)?;
    let adds = matches!(order(SlotSet::empty()), AdminCommand::AddSlots(_));
    if let Some(duplicate) = duplicate {
        let is_wrong = |cluster: &mut cluster::Cluster| {
            slots.iter().any(|slot| cluster.owner(slot).is_some() == adds)
        };
        if server.cluster.with_engine(is_wrong) != Some(true) {
            return Err(Refusal::owned(format!("ERR Slot {duplicate} specified multiple times")));
        }
    }
    execute(context, reply, move |_| order(slots))
}

/// Slots come in pairs.
fn even(context: &Context<'_>, args: Args<'_>) -> Result<(), Refusal> {
    if args.len().is_multiple_of(2) { Ok(()) } else { Err(wrong_arity(&context.entry.full_name)) }
}

pub(super) fn bump_epoch(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    execute(context, reply, |_| AdminCommand::BumpEpoch)
}

pub(super) fn flush_slots(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    execute(context, reply, |server| AdminCommand::FlushSlots(has_keys(server)))
}

pub(super) fn save_config(
    context: &mut Context<'_>,
    _: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    execute(context, reply, |_| AdminCommand::Save)
}

pub(super) fn forget(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    enabled(context)?;
    let id = parse::node(&args[2], parse::UNKNOWN_NODE)?;
    execute(context, reply, move |_| AdminCommand::Forget(id))
}

pub(super) fn replicate(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    const WRONG: Refusal = Refusal::error(
        "ERR unknown subcommand or wrong number of arguments for 'REPLICATE'. Try CLUSTER HELP.",
    );
    enabled(context)?;
    if args.len() > 3 {
        let is_no_one = args.len() == 4 && is(&args[2], "NO") && is(&args[3], "ONE");
        return match is_no_one {
            true => execute(context, reply, |_| AdminCommand::ReplicateNoOne),
            false => Err(WRONG),
        };
    }
    let id = parse::node(&args[2], parse::UNKNOWN_NODE)?;
    execute(context, reply, move |server| AdminCommand::Replicate(id, has_keys(server)))
}

pub(super) fn fail_over(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    enabled(context)?;
    let forcing = match args.get(2) {
        None => FailoverMode::Agreed,
        Some(word) if is(word, "FORCE") && args.len() == 3 => FailoverMode::Force,
        Some(word) if is(word, "TAKEOVER") && args.len() == 3 => FailoverMode::Takeover,
        Some(_) => return Err(SYNTAX),
    };
    execute(context, reply, move |_| AdminCommand::Failover(forcing))
}

pub(super) fn reset(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    enabled(context)?;
    let is_hard = match args.get(2) {
        None => false,
        Some(word) if is(word, "SOFT") && args.len() == 3 => false,
        Some(word) if is(word, "HARD") && args.len() == 3 => true,
        Some(_) => return Err(SYNTAX),
    };
    execute(context, reply, move |server| AdminCommand::Reset {
        is_hard,
        has_keys: has_keys(server),
    })
}

pub(super) fn set_config_epoch(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    enabled(context)?;
    let number = parse_i64(&args[2]);
    let number = number.ok_or(NOT_AN_INTEGER)?;
    // One beyond that is in no packet that a node believes.
    let epoch = u64::try_from(number).ok().filter(|epoch| *epoch <= cluster::EPOCH_MAX);
    let invalid = || Refusal::owned(format!("ERR Invalid config epoch specified: {number}"));
    let epoch = epoch.ok_or_else(invalid)?;
    execute(context, reply, move |_| AdminCommand::SetConfigEpoch(epoch))
}

pub(super) fn meet(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    enabled(context)?;
    if args.len() > 5 {
        return Err(wrong_arity(&context.entry.full_name));
    }
    let number = |word: &[u8], what: &str| {
        let shown = String::from_utf8_lossy(word).into_owned();
        let invalid = || Refusal::owned(format!("ERR Invalid {what} port specified: {shown}"));
        parse_i64(word).ok_or_else(invalid)
    };
    let port = number(&args[3], "base")?;
    let bus_port = match args.get(4) {
        Some(word) => number(word, "bus")?,
        None => port.saturating_add(BUS_OFFSET),
    };
    let address = String::from_utf8_lossy(&args[2]).into_owned();
    let is_port = |port: i64| u16::try_from(port).ok().filter(|port| *port > 0);
    let found = (address.parse::<IpAddr>().ok(), is_port(port), is_port(bus_port));
    let (Some(ip), Some(port), Some(bus_port)) = found else {
        return Err(Refusal::owned(format!(
            "ERR Invalid node address specified: {address}:{}",
            String::from_utf8_lossy(&args[3])
        )));
    };
    execute(context, reply, move |_| AdminCommand::Meet { ip, port, bus_port })
}

/// The owner of a slot that moves whole is not another by order meanwhile, and no single keys are
/// moved from or to such a slot.
fn whole_move_beside(server: &Server, order: &AdminCommand) -> Option<Refusal> {
    let is_meant = |slots: &SlotSet| match order {
        AdminCommand::SetSlot { slot, .. } => slots.contains(*slot),
        AdminCommand::AddSlots(these) | AdminCommand::DelSlots(these) => {
            !slots.and(these).is_empty()
        }
        AdminCommand::FlushSlots(_) | AdminCommand::Reset { .. } => true,
        _ => false,
    };
    let running = server.cluster.moves.running();
    let job = running.iter().find(|job| is_meant(&job.slots))?;
    Some(Refusal::error(match job.direction {
        MoveDirection::Export => "ERR Slot export in progress.",
        MoveDirection::Import => "ERR Slot import in progress.",
    }))
}

/// Keys of a slot that another node took go in the background. Those that are left are nobody's any
/// more: a slot that is opened here, or becomes this node's again, is to be empty. An order that
/// comes too early is refused, and has them deleted where nobody does that by now.
fn refuse_copies(server: &Server, order: &AdminCommand) -> Option<Refusal> {
    let me = server.cluster.with_engine(|cluster| cluster.my_id());
    let coming: SlotSet = match order {
        AdminCommand::AddSlots(slots) => slots.clone(),
        AdminCommand::SetSlot { slot, change: SetSlotAction::Importing(_), .. } => {
            [*slot].into_iter().collect()
        }
        AdminCommand::SetSlot { slot, change: SetSlotAction::Node(id), .. } if Some(*id) == me => {
            [*slot].into_iter().collect()
        }
        _ => return None,
    };
    let copied: Vec<_> =
        coming.iter().map(Slot::get).filter(|slot| has_copies(server, *slot)).collect();
    let first = *copied.first()?;
    if server.cluster.trims.running.load(Ordering::Relaxed) == 0 {
        server.cluster.drop_slots(copied);
    }
    Some(Refusal::owned(format!(
        "ERR Slot {first} has keys of an earlier time, which are being deleted. Please try again."
    )))
}

pub(super) fn set_slot(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    const NO_ACTION: Refusal = Refusal::error(
        "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
    );
    let server = enabled(context)?;
    if server.cluster.with_engine(|cluster| cluster.is_primary()) == Some(false) {
        return Err(Refusal::error("ERR Please use SETSLOT only with masters."));
    }
    let slot = parse::slot(&args[2])?;
    let (word, with_node) = (&args[3], args.len() == 5);
    let change = if is(word, "STABLE") && args.len() == 4 {
        SetSlotAction::Stable
    } else if is(word, "MIGRATING") && with_node {
        SetSlotAction::Migrating(parse::node(&args[4], "I don't know about node")?)
    } else if is(word, "IMPORTING") && with_node {
        SetSlotAction::Importing(parse::node(&args[4], "I don't know about node")?)
    } else if is(word, "NODE") && with_node {
        SetSlotAction::Node(parse::node(&args[4], parse::UNKNOWN_NODE)?)
    } else {
        return Err(NO_ACTION);
    };
    execute(context, reply, move |server| {
        let has_keys = server.keyspace.population(slot.get()) > 0;
        AdminCommand::SetSlot { slot, change, has_keys }
    })
}
