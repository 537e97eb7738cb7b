//! The links' thread, which begins with the first link and then serves all of them.
//!
//! Invariant: what the engine wants done is done here, in the order in which it was decided.

use std::cell::RefCell;
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::SyncSender;
use std::task::Poll;
use std::time::Duration;

use base::io_error_text::strerror;
use base::number::parse_i64;
use config::settings::{REPL_BACKLOG_SIZE, REPL_DISABLE_TCP_NODELAY};
use engine::clients::registry::client_flags;
use engine::limits::log_buffers;
use engine::runtime::lanes::STACK_BYTES;
use engine::runtime::log::{log_notice, log_warning};
use engine::session::client_info::describe;
use engine::session::{AskedSync, ReplicaSession};
use keyspace::{Acquisition, Refusal};
use persist::storage::OpenMode;
use replication::primary::{
    CloseWhen, ReplicaId, RoundId, ServerRole, SyncKind, SyncRequest, SyncVerdict,
};
use replication::replica::{LinkState, ReplicaLink as LinkEngine, ReplicaofTarget};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::spawn_local;

use super::full_sync::{self, Round, SnapshotEnd};
use super::handle::Links;
use super::link_output::LinkOutput;
use super::primary_link::{PrimaryLink, PrimaryLinkMessage};
use super::replica_link::ReplicaLink;
use super::replication_state::{LinkAction, ReplicationState, SnapshotOrder, now_ms};
use super::roles::RoleChange;
use super::settings;
use super::stream::ReplicationStream;
use crate::net::connection::{MovingSession, Stream};
use crate::net::network::Network;

/// Between two looks at the clock.
const TICK: Duration = Duration::from_secs(1);

/// The same for the link to our primary.
const LINK_TICK: Duration = Duration::from_millis(100);

/// What the thread is told.
pub(super) enum LinksMessage {
    /// A client has asked for a sync.
    Adopt(Box<MovingSession>),
    /// The engine has been asked something.
    RunActions,
    /// A snapshot has ended.
    SnapshotOver(RoundId, SnapshotEnd),
    /// Asks whether nothing of our primary is under way; then no applier stays, either.
    IsIdle { gives_up: bool, answer: SyncSender<bool> },
    /// Asks whether a replica was sent all that there is for it.
    IsSent { replica: ReplicaId, answer: SyncSender<bool> },
    /// Something of the link to our primary.
    OfPrimary(PrimaryLinkMessage),
}

/// What the thread has.
pub(super) struct LinksThread {
    pub(super) server: &'static Network,
    pub(super) links: &'static Links,
    pub(super) primary_link: PrimaryLink,
    replicas: RefCell<HashMap<u64, Rc<ReplicaLink>>>,
    rounds: RefCell<Vec<(RoundId, Round)>>,
    /// What is to begin when the snapshot before has come to its end: there is one at a time.
    next_round: RefCell<Option<SnapshotOrder>>,
}

/// Begins the thread.
pub(super) fn spawn(
    server: &'static Network,
    links: &'static Links,
    inbox: UnboundedReceiver<LinksMessage>,
) -> io::Result<()> {
    let run = move || {
        let mut builder = Builder::new_current_thread();
        let runtime = match builder.enable_all().build_local(LocalOptions::default()) {
            Ok(runtime) => runtime,
            Err(error) => {
                log_warning!(server.log, "Cannot serve replicas: {}", strerror(&error));
                return;
            }
        };
        runtime.block_on(serve(server, links, inbox));
    };
    std::thread::Builder::new().name("links".to_owned()).stack_size(STACK_BYTES).spawn(run)?;
    Ok(())
}

async fn serve(
    server: &'static Network,
    links: &'static Links,
    mut inbox: UnboundedReceiver<LinksMessage>,
) {
    let thread = Rc::new(LinksThread {
        server,
        links,
        primary_link: PrimaryLink::default(),
        replicas: RefCell::default(),
        rounds: RefCell::default(),
        next_round: RefCell::default(),
    });
    spawn_local(tick(Rc::clone(&thread)));
    spawn_local(tick_link(Rc::clone(&thread)));
    spawn_local(weigh(Rc::clone(&thread)));
    spawn_local(ask_for_acks(Rc::clone(&thread)));
    spawn_local(wake_links(Rc::clone(&thread)));
    while let Some(message) = inbox.recv().await {
        match message {
            LinksMessage::Adopt(moving) => adopt(&thread, *moving),
            LinksMessage::RunActions => thread.run_actions(),
            LinksMessage::SnapshotOver(round, end) => thread.end_round(round, &end),
            LinksMessage::OfPrimary(message) => thread.handle_link_message(message),
            LinksMessage::IsSent { replica, answer } => {
                let link = thread.link(replica);
                // The thread that asked waits for it.
                let _ = answer.send(link.is_none_or(|link| link.output.borrow().is_sent()));
            }
            LinksMessage::IsIdle { gives_up, answer } => {
                let is_idle = thread.primary_link.is_idle();
                if is_idle || gives_up {
                    thread.primary_link.end_applier();
                }
                // The thread that asked waits for it.
                let _ = answer.send(is_idle || gives_up);
            }
        }
    }
}

async fn tick(thread: Rc<LinksThread>) {
    loop {
        tokio::time::sleep(TICK).await;
        thread.ask(|core, server| {
            let ServerRole { role, fails_over } = core.server_role(server);
            if let Some(stream) = &core.stream {
                stream.state().backlog.trim();
            }
            core.ask(server, |primary, stream| {
                primary.tick(role, fails_over, stream, now_ms(server));
            });
        });
        thread.rounds.borrow().iter().for_each(|(_, round)| round.abort_if_stuck());
    }
}

/// What a replica owes grows fast; where there is none, an idle server is woken no more often than
/// by `tick`.
async fn weigh(thread: Rc<LinksThread>) {
    loop {
        let has_replicas = !thread.replicas.borrow().is_empty();
        tokio::time::sleep(if has_replicas { LINK_TICK } else { TICK }).await;
        thread.weigh();
    }
}

/// Where there is no primary, an idle server is woken no more often than by `tick`.
async fn tick_link(thread: Rc<LinksThread>) {
    loop {
        let has_primary =
            thread.with_replication_state(|core, _| core.link.state() != LinkState::None);
        tokio::time::sleep(if has_primary { LINK_TICK } else { TICK }).await;
        thread.tick_link();
    }
}

/// Asks replicas how far they are, when somebody waits for that.
async fn ask_for_acks(thread: Rc<LinksThread>) {
    loop {
        let acks = &thread.server.journal.replica_acks;
        poll_fn(|cx| match acks.take_wanted(cx.waker()) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        })
        .await;
        thread.ask(|core, server| {
            let ServerRole { role, fails_over } = core.server_role(server);
            core.ask(server, |primary, _| {
                primary.want_acks();
                primary.end_of_turn(role, fails_over);
            });
        });
    }
}

/// Wakes the links when there is more of the stream.
async fn wake_links(thread: Rc<LinksThread>) {
    let mut seen = 0;
    loop {
        seen = poll_fn(|cx| {
            let mut core = thread.links.core(thread.server);
            match &core.stream {
                Some(stream) => stream.state().poll_beyond(seen, cx.waker()),
                None => {
                    core.awaits_stream = Some(cx.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await;
        thread.replicas.borrow().values().for_each(|link| link.wake());
        // Links that are up to date write before the next look.
        tokio::task::yield_now().await;
    }
}

/// Takes over a client that has asked for a sync; one that is refused goes back to a worker.
fn adopt(thread: &Rc<LinksThread>, mut moving: MovingSession) {
    let server = thread.server;
    let client = Arc::clone(&moving.session.client);
    let announced = &moving.session.replica_mut().announced;
    let (port, reader) = (announced.port, announced.requirements.reader);
    let link = ReplicaLink::new(client, port, full_sync::met_by(reader, &server.config));
    let verdict = thread.sync_verdict(&link, &mut moving);
    moving.session.client.set_flag(client_flags::BLOCKED, false);
    if verdict != SyncVerdict::PromoteFirst {
        moving.session.replica_mut().asked = None;
    }
    match verdict {
        SyncVerdict::Attached => {
            thread.attach(link, moving);
            return thread.run_actions();
        }
        SyncVerdict::Ignored => moving.answer(|_| ()),
        SyncVerdict::Refused(error) => {
            let refusal = Refusal::owned(String::from_utf8_lossy(&error).into_owned());
            moving.answer(|reply| server.refuse(&refusal, reply));
        }
        SyncVerdict::Told(line) => moving.answer(|reply| reply.simple(line)),
        SyncVerdict::PromoteFirst => return thread.promote_for(moving),
    }
    server.worker_pool.hand_over(server, Box::new(moving));
    thread.run_actions();
}

/// The offset from which on a replica asks for the stream.
fn byte_asked(byte: &[u8]) -> Option<u64> {
    let byte = parse_i64(byte)?;
    u64::try_from(byte).ok()?.checked_sub(1)
}

impl LinksThread {
    /// Asks the engines, and does what they want done.
    pub(super) fn ask<T>(
        self: &Rc<Self>,
        ask: impl FnOnce(&mut ReplicationState, &'static Network) -> T,
    ) -> T {
        let answer = self.with_replication_state(ask);
        self.run_actions();
        answer
    }

    /// Asks the engine of the link to our primary, and does what it wants done.
    pub(super) fn ask_link<T>(self: &Rc<Self>, ask: impl FnOnce(&mut LinkEngine) -> T) -> T {
        self.ask(|core, server| core.ask_link(server, ask))
    }

    /// Asks, and leaves what is to be done for the next time.
    pub(super) fn with_replication_state<T>(
        &self,
        ask: impl FnOnce(&mut ReplicationState, &'static Network) -> T,
    ) -> T {
        ask(&mut self.links.core(self.server), self.server)
    }

    /// Does what the engines want done.
    pub(super) fn run_actions(self: &Rc<Self>) {
        loop {
            let (actions, of_link) = self
                .with_replication_state(|core, _| (core.take_queue(), core.link.take_actions()));
            if actions.is_empty() && of_link.is_empty() {
                return;
            }
            actions.into_iter().for_each(|action| self.perform(action));
            of_link.into_iter().for_each(|action| self.perform_for_link(action, &[]));
        }
    }

    /// A link has ended.
    pub(super) fn forget(&self, id: ReplicaId) {
        self.replicas.borrow_mut().remove(&id.0);
    }

    /// What the engine says to a client that has asked for a sync.
    fn sync_verdict(
        self: &Rc<Self>,
        link: &ReplicaLink,
        moving: &mut MovingSession,
    ) -> SyncVerdict {
        let (client, has_output) = (link.describe(self), moving.has_output());
        let is_monitor = moving.session.client.has_flag(client_flags::MONITOR);
        let peer = link.peer_ip();
        let ReplicaSession { announced, asked } = moving.session.replica_mut();
        let ask = match asked.as_ref().expect("the client has asked") {
            AskedSync::Sync => SyncKind::Sync,
            AskedSync::Psync { id, byte, failover } => {
                if *failover {
                    // What was asked before is given up.
                    self.links.handovers_asked.fetch_add(1, Ordering::Relaxed);
                }
                SyncKind::Psync { id, byte, failover: *failover }
            }
        };
        let mut core = self.links.core(self.server);
        let meets = link.output.borrow().meets;
        let is_unmet = |from| {
            let state = core.stream.as_ref().map(ReplicationStream::state);
            state.is_some_and(|state| state.unmet(meets, from).is_some())
        };
        let asks_for_unmet = matches!(ask, SyncKind::Psync { byte, .. }
            if byte_asked(byte).is_some_and(is_unmet));
        let request = SyncRequest {
            replica: link.id,
            peer: &peer,
            client: &client,
            announced,
            ask,
            is_monitor,
            has_output,
            asks_for_unmet,
        };
        let standing = core.server_role(self.server);
        core.ask(self.server, |primary, stream| {
            primary.sync(&request, standing, stream, now_ms(self.server))
        })
    }

    /// An old primary hands over: we become a primary, and are asked once more.
    fn promote_for(&self, mut moving: MovingSession) {
        let (server, links) = (self.server, self.links);
        let client = describe(server, &moving.session.client, server.keyspace.clock().now_ms());
        let asked = &mut moving.session.replica_mut().asked;
        if let Some(AskedSync::Psync { failover, .. }) = asked {
            *failover = false;
        }
        let asked = links.handovers_asked.load(Ordering::Relaxed);
        server.threads.background.spawn(move |_| {
            let target = ReplicaofTarget::NoOne;
            let change = RoleChange { target, client: &client, may_release_world: true };
            let world = Acquisition::of_world(server.keyspace);
            // An old primary whose connection is gone hears no answer: it asks again, or is the
            // primary again.
            let is_wanted = || {
                asked == links.handovers_asked.load(Ordering::Relaxed) && moving.stream.is_open()
            };
            let (world, done) = links.replicaof_if(server, change, world, is_wanted);
            drop(world);
            match done {
                Ok(_) => links.adopt(server, Box::new(moving)),
                Err(refusal) => {
                    moving.session.replica_mut().asked = None;
                    moving.answer(|reply| server.refuse(&refusal, reply));
                    server.worker_pool.hand_over(server, Box::new(moving));
                }
            }
        });
    }

    /// A client is a replica from now on.
    fn attach(self: &Rc<Self>, link: Rc<ReplicaLink>, mut moving: MovingSession) {
        let server = self.server;
        let client = Arc::clone(&moving.session.client);
        client.set_flag(client_flags::REPLICA, true);
        let session = &mut moving.session;
        session.unsubscribe_all();
        session.untrack();
        session.end_transaction(server);
        let input = moving.take_input();
        match Stream::attach(moving.stream) {
            Ok(stream) => {
                stream.set_nodelay(!server.config.get(REPL_DISABLE_TCP_NODELAY));
                self.replicas.borrow_mut().insert(link.id.0, Rc::clone(&link));
                spawn_local(link.run(Rc::clone(self), stream, input));
            }
            Err(_) => {
                let now = now_ms(server);
                self.ask(|core, server| core.ask(server, |it, _| it.closed(link.id, now)));
                server.session_ended(client.id);
            }
        }
    }

    fn perform(&self, action: LinkAction) {
        match action {
            LinkAction::Send { replica, bytes } => self.at(replica, |out| out.push(bytes)),
            LinkAction::Pin { replica, place } => {
                let stream =
                    self.links.core(self.server).stream.as_ref().map(ReplicationStream::share);
                if let Some(stream) = stream {
                    self.at(replica, |out| out.pin(place, stream));
                }
            }
            LinkAction::Unpin { replica } => self.at(replica, LinkOutput::unpin),
            LinkAction::Stream { replica } => self.at(replica, LinkOutput::stream),
            LinkAction::Begin(order) => self.begin_round(order),
            LinkAction::SendBody { round } => {
                let readers = self.with_round(round, Round::take_readers).unwrap_or_default();
                for (replica, reader) in readers {
                    self.at(ReplicaId(replica), |out| out.push_feed(reader));
                }
            }
            LinkAction::Abort { round } => {
                self.next_round.borrow_mut().take_if(|order| order.round == round);
                self.with_round(round, |round| round.cancel());
            }
            LinkAction::SendFile { replica, round } => self.send_file(replica, round),
            LinkAction::NoteSent { replica } => self.at(replica, LinkOutput::note),
            LinkAction::Append { record } => _ = self.server.journal.append(record),
            LinkAction::Close { replica, when: CloseWhen::Flushed } => {
                self.at(replica, LinkOutput::end);
            }
            LinkAction::Close { replica, when: CloseWhen::Now } => {
                if let Some(link) = self.link(replica) {
                    link.close();
                }
            }
        }
    }

    fn link(&self, replica: ReplicaId) -> Option<Rc<ReplicaLink>> {
        self.replicas.borrow().get(&replica.0).cloned()
    }

    /// Adds to what a link has to send.
    fn at(&self, replica: ReplicaId, add: impl FnOnce(&mut LinkOutput)) {
        if let Some(link) = self.link(replica) {
            add(&mut link.output.borrow_mut());
            link.wake();
        }
    }

    fn with_round<T>(&self, id: RoundId, act: impl FnOnce(&mut Round) -> T) -> Option<T> {
        let mut rounds = self.rounds.borrow_mut();
        rounds.iter_mut().find(|(round, _)| *round == id).map(|(_, round)| act(round))
    }

    fn begin_round(&self, order: SnapshotOrder) {
        if !self.rounds.borrow().is_empty() {
            *self.next_round.borrow_mut() = Some(order);
            return;
        }
        let (server, links, id) = (self.server, self.links, order.round);
        // The directive may be another one since a replica asked.
        let meets = full_sync::met_by(order.requirements.reader, &server.config);
        order.replicas.iter().for_each(|replica| self.at(*replica, |out| out.meets = meets));
        let at_cut = move || {
            links.core(server).note_cut(server, id);
            links.send(server, LinksMessage::RunActions);
        };
        let done = move |end| links.send(server, LinksMessage::SnapshotOver(id, end));
        match full_sync::begin(server, &order, at_cut, done) {
            Ok(round) => self.rounds.borrow_mut().push((id, round)),
            // The end was told already.
            Err(why) => log_warning!(server.log, "Can't begin a snapshot for replicas: {why}"),
        }
    }

    fn end_round(self: &Rc<Self>, id: RoundId, end: &SnapshotEnd) {
        let server = self.server;
        match end {
            Ok(_) => log_notice!(server.log, "Background RDB transfer terminated with success"),
            Err(why) => log_warning!(server.log, "Background transfer error: {why}"),
        }
        if let Some(began_us) = self.with_round(id, |round| round.began_us) {
            let (spans, clock) = (&server.observed.spans, server.keyspace.clock());
            spans.note_task(clock, "full sync", began_us, end.is_err());
        }
        let path = self.with_round(id, |round| round.path().cloned()).flatten();
        let now = now_ms(server);
        self.ask(|core, server| {
            core.ask(server, |primary, _| match end {
                Ok(len) if path.is_some() => primary.snapshot_saved(id, *len, now),
                Ok(_) => primary.snapshot_streamed(id, now),
                Err(_) => primary.snapshot_failed(id, now),
            });
        });
        self.rounds.borrow_mut().retain(|(round, _)| *round != id);
        if let Some(path) = path {
            // A link that is sent the file has it open.
            let _ = server.storage.remove(&path);
        }
        let next = self.next_round.borrow_mut().take();
        if let Some(order) = next {
            self.begin_round(order);
        }
    }

    fn send_file(&self, replica: ReplicaId, round: RoundId) {
        let path = self.with_round(round, |round| round.path().cloned()).flatten();
        let opened = path.map(|path| self.server.storage.open(&path, OpenMode::Read));
        match opened {
            Some(Ok(file)) => self.at(replica, |out| out.push_file(file)),
            Some(Err(error)) => {
                log_warning!(self.server.log, "Can't send the snapshot: {}", strerror(&error));
                if let Some(link) = self.link(replica) {
                    link.end();
                }
            }
            None => {}
        }
    }

    /// Looks how much each replica has still to get.
    fn weigh(self: &Rc<Self>) {
        let server = self.server;
        self.with_replication_state(|core, _| match &core.stream {
            Some(stream) => stream.state().note_kept(),
            None => log_buffers::note_kept_for_replicas(0),
        });
        let limit = settings::output_limit(&server.config);
        let size = server.config.get(REPL_BACKLOG_SIZE);
        let links: Vec<_> = self.replicas.borrow().values().cloned().collect();
        for link in links {
            let debt = link.output.borrow().debt();
            link.show_debt(debt);
            let client = link.describe(self);
            self.ask(|core, server| {
                core.ask(server, |primary, _| {
                    primary.weigh(link.id, debt, limit, size, &client, now_ms(server));
                });
            });
        }
    }
}
