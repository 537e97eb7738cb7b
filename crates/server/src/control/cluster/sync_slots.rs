//! CLUSTER SYNCSLOTS: what the source of a move says to its target, in the words of Valkey 9.
//!
//! Invariant: behind ESTABLISH a session's commands are answered by nothing but what the target
//! asks for; each word is good in one state of the move, and any other ends it. The slots are
//! claimed once all that came is safe in the log.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::Duration;

use cluster::{AdminCommand, AdminError, ClaimEpochs, Cluster, EPOCH_MAX, NodeId, SlotSet};
use commands::arguments::is;
use commands::errors::SYNTAX;
use config::settings::CLUSTER_MANUAL_FAILOVER_TIMEOUT;
use durability::aof;
use engine::runtime::background::wait_for_client;
use engine::runtime::failpoint::{ClaimPlace, point_in_claim};
use keyspace::{Acquisition, Refusal};
use proto::{Args, Reply};

use super::commands::enabled;
use super::moves;
use crate::cluster::{MoveDirection, MoveJob, MoveRequest, MoveState, SlotImport, World};
use crate::control::context::{Context, Next};
use crate::server::Server;

const NOT_EMPTY: Refusal = Refusal::error("ERR Slots have keys of an earlier time");
const UNEXPECTED: Refusal = Refusal::error("ERR Unexpected state machine transition");
const BETWEEN_CLAIMS: Duration = Duration::from_millis(5);
/// What a source says behind ESTABLISH.
const WORDS: [&str; 4] = ["ACK", "SNAPSHOT-EOF", "PAUSED", "FAILOVER-GRANTED"];

pub(super) fn sync_slots(
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    const REPLICA: Refusal =
        Refusal::error("ERR Slot migration can only be used on primary nodes.");
    let server = enabled(context)?;
    if context.unit.is_some() {
        return Err(SYNTAX);
    }
    let word = &args[2];
    if is(word, "ESTABLISH") {
        if server.cluster.with_engine(|cluster| cluster.is_primary()) != Some(true) {
            return Err(REPLICA);
        }
        return establish(server, context, args, reply);
    }
    let Some(word) = WORDS.into_iter().find(|it| is(word, it)) else { return Err(SYNTAX) };
    let of_nobody = || {
        Refusal::owned(format!(
            "ERR CLUSTER SYNCSLOTS {word} should only be used by slot migration clients"
        ))
    };
    let session = context.session()?;
    let received = session.client.live.net_in.load(Ordering::Relaxed);
    let importing = session.importing_slots().map(Arc::clone).ok_or_else(of_nobody)?;
    let import = importing.as_any().downcast_ref::<SlotImport>().ok_or_else(of_nobody)?;
    import.job.note_heard(server);
    import.job.note_received(received);
    let advance = |from, to| import.job.advance(server, from, to).then_some(()).ok_or(UNEXPECTED);
    match word {
        "ACK" => reply_word(reply, "ACK"),
        "SNAPSHOT-EOF" => {
            advance(MoveState::ReceivingSnapshot, MoveState::WaitingForPaused)?;
            check(server, import)?;
            reply_word(reply, "REQUEST-PAUSE");
        }
        "PAUSED" => {
            advance(MoveState::WaitingForPaused, MoveState::FailoverRequested)?;
            check(server, import)?;
            import.asked_us.store(server.keyspace.clock().monotonic_us(), Ordering::Relaxed);
            reply_word(reply, "REQUEST-FAILOVER");
        }
        _ => {
            advance(MoveState::FailoverRequested, MoveState::FailoverGranted)?;
            let epochs = read_epochs(args)?;
            return Ok(Next::offload_with_locks(move |_, _, _| {
                let import = importing.as_any().downcast_ref();
                import.map_or(Ok(()), |import| claim(server, import, epochs))
            }));
        }
    }
    Ok(Next::Done)
}

/// The epochs that a source of Apus names: `EPOCHS first last`.
fn read_epochs(args: Args<'_>) -> Result<Option<ClaimEpochs>, Refusal> {
    if args.len() == 3 {
        return Ok(None);
    }
    let number = |index: usize| {
        let number = args.get(index).and_then(base::number::parse_i64);
        let number = number.and_then(|number| u64::try_from(number).ok());
        number.filter(|epoch| *epoch <= EPOCH_MAX).ok_or(SYNTAX)
    };
    if args.len() != 6 || !is(&args[3], "EPOCHS") {
        return Err(SYNTAX);
    }
    Ok(Some(ClaimEpochs { first: number(4)?, last: number(5)? }))
}

fn reply_word(reply: &mut Reply<'_>, word: &str) {
    reply.array(3);
    ["CLUSTER", "SYNCSLOTS", word].into_iter().for_each(|it| reply.bulk(it.as_bytes()));
}

fn establish(
    server: &'static Server,
    context: &mut Context<'_>,
    args: Args<'_>,
    reply: &mut Reply<'_>,
) -> Result<Next, Refusal> {
    if context.session()?.importing_slots().is_some() {
        return Err(UNEXPECTED);
    }
    let request = read_request(server, args)?;
    server.cluster.with_engine(|cluster| check_request(cluster, &request)).ok_or(SYNTAX)??;
    let session = context.session()?;
    let client = Some(session.client.id);
    let job = server.cluster.moves.new_job(server, request, MoveDirection::Import, client);
    server.cluster.moves.add(server, &[Arc::clone(&job)]).map_err(|_| {
        Refusal::error("ERR Slot is already being imported on the target by a different migration")
    })?;
    let import = SlotImport::begin(server.cluster_start(), job);
    session.import_slots(Arc::new(import.ok_or(NOT_EMPTY)?));
    reply.ok();
    Ok(Next::Done)
}

fn read_request(server: &Server, args: Args<'_>) -> Result<MoveRequest, Refusal> {
    let id = |word: Option<&[u8]>| word.and_then(NodeId::parse).ok_or(SYNTAX);
    let (mut source, mut name, mut slots) = (None, None, SlotSet::empty());
    let mut index = 3;
    while let Some(word) = args.get(index) {
        if is(word, "SOURCE") {
            source = Some(id(args.get(index + 1))?);
            index += 2;
        } else if is(word, "NAME") {
            name = Some(id(args.get(index + 1))?.to_string());
            index += 2;
        } else if is(word, "SLOTSRANGE") {
            index = moves::ranges(args, index + 1, &mut slots)?;
        } else {
            return Err(SYNTAX);
        }
    }
    let target = server.cluster.with_engine(|cluster| cluster.my_id()).ok_or(SYNTAX)?;
    let (source, name) = (source.ok_or(SYNTAX)?, name.ok_or(SYNTAX)?);
    if slots.is_empty() {
        return Err(SYNTAX);
    }
    Ok(MoveRequest { name, slots, source, target })
}

fn check_request(cluster: &mut Cluster, request: &MoveRequest) -> Result<(), Refusal> {
    let MoveRequest { source, target, slots, .. } = request;
    if source == target {
        return Err(Refusal::error("ERR Source node is target node itself"));
    }
    if cluster.offset(*source).is_none() {
        return Err(Refusal::error("ERR Target node does not know the source node"));
    }
    if slots.iter().any(|slot| cluster.owner(slot) != Some(*source)) {
        return Err(Refusal::error("ERR Target node does not agree about current slot ownership"));
    }
    if cluster.open_slots().any(|(slot, _)| slots.contains(slot)) {
        return Err(Refusal::error("ERR Slots are being manually imported"));
    }
    Ok(())
}

/// Whether slots may still be taken for what has come: nothing is asked of the source in vain.
fn check(server: &'static Server, import: &SlotImport) -> Result<(), Refusal> {
    let checked = import.job.check_owner(server.cluster_start());
    checked.map_err(|why| Refusal::owned(format!("ERR {why}")))
}

/// Takes the slots. Claims that were made before them are confirmed first: that takes as long as
/// their source needs to answer, as a rule.
fn claim(
    server: &'static Server,
    import: &SlotImport,
    epochs: Option<ClaimEpochs>,
) -> Result<(), Refusal> {
    while !claim_if_confirmed(server, import, epochs)? {
        sleep(BETWEEN_CLAIMS);
    }
    Ok(())
}

/// Takes the slots, unless the source may go on writing to them by now; or says that other claims
/// of this node are not confirmed yet.
fn claim_if_confirmed(
    server: &'static Server,
    import: &SlotImport,
    epochs: Option<ClaimEpochs>,
) -> Result<bool, Refusal> {
    const LATE: Refusal = Refusal::error("ERR The pause of the source may be over");
    const UNSAFE: Refusal = Refusal::error("ERR The log has not taken all that came");
    point_in_claim(ClaimPlace::Look);
    // A disk that has no room for the last of it keeps nothing else from coming.
    if !aof::flush(server) || server.journal.has_failed() {
        return Err(UNSAFE);
    }
    let mut world = Acquisition::of_world(server.keyspace);
    wait_for_client(server.keyspace, &mut world)?;
    check(server, import)?;
    let asked_us = import.asked_us.load(Ordering::Relaxed);
    let passed_us = server.keyspace.clock().monotonic_us() - asked_us;
    let timeout = server.config.get(CLUSTER_MANUAL_FAILOVER_TIMEOUT);
    if passed_us > i64::try_from(timeout).unwrap_or(i64::MAX).saturating_mul(1000) {
        return Err(LATE);
    }
    let MoveJob { slots, source, .. } = &*import.job;
    let order = AdminCommand::Claim { slots: slots.clone(), from: *source, epochs };
    point_in_claim(ClaimPlace::Order);
    match server.cluster.order(server, &order, World::Stopped) {
        Ok(_) => import.note_claimed(),
        Err(AdminError::Unconfirmed) => return Ok(false),
        Err(why) => return Err(Refusal::owned(format!("ERR {why}"))),
    }
    Ok(true)
}
