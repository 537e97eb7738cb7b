//! MIGRATE as other rooms see it: an order goes to the thread, and its reply comes back.
//!
//! Invariant: the thread begins with the first order, and there is one.

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base::io_error_text::strerror;
use engine::runtime::lanes::STACK_BYTES;
use engine::session::OffloadResult;
use keyspace::Refusal;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{Notify, oneshot};
use tokio::task::spawn_local;

use super::exchange;
use super::link_cache::LinkCache;
use super::request::{MigrateRequest, MigrateTarget};
use super::target_link::TargetLink;
use crate::net::network::Network;

/// Between two looks for connections that nobody uses.
const LOOK: Duration = Duration::from_secs(1);

/// So many names are looked up at once.
const LOOKUPS: usize = 4;

/// All MIGRATEs.
pub(crate) struct Migrations {
    /// To the thread, once there is one.
    sender: Mutex<Option<UnboundedSender<MigrationMessage>>>,
    cached: AtomicUsize,
}

/// An order, and where its reply goes.
struct MigrationMessage {
    order: Box<MigrateRequest>,
    sender: oneshot::Sender<OffloadResult>,
}

/// What those that are under way share on their thread.
pub(super) struct MigrationThread {
    pub(super) server: &'static Network,
    migrations: &'static Migrations,
    cache: RefCell<LinkCache>,
    /// A connection was kept.
    kept: Notify,
}

impl Migrations {
    /// None yet, and no thread.
    pub(crate) fn new() -> Self {
        Self { sender: Mutex::default(), cached: AtomicUsize::new(0) }
    }

    /// Carries out an order; the reply comes there.
    pub(crate) fn begin(
        &'static self,
        server: &'static Network,
        order: Box<MigrateRequest>,
    ) -> Result<oneshot::Receiver<OffloadResult>, Refusal> {
        let (sender, receiver) = oneshot::channel();
        let mut thread = self.sender.lock().expect("no critical section here panics");
        let inbox = match &mut *thread {
            Some(inbox) => inbox,
            none => none.insert(self.spawn(server).map_err(|error| {
                Refusal::owned(format!("ERR Can't send keys: {}", strerror(&error)))
            })?),
        };
        if inbox.send(MigrationMessage { order, sender }).is_err() {
            // The thread got nothing from the system to wait with, and has ended.
            *thread = None;
            return Err(Refusal::error("ERR Can't send keys: no event loop"));
        }
        Ok(receiver)
    }

    /// How many connections stay for the next order.
    pub(crate) fn cached_links(&self) -> usize {
        self.cached.load(Ordering::Relaxed)
    }

    fn spawn(
        &'static self,
        server: &'static Network,
    ) -> io::Result<UnboundedSender<MigrationMessage>> {
        let (sender, inbox) = unbounded_channel();
        let run = move || {
            let mut builder = Builder::new_current_thread();
            let builder = builder.enable_all().max_blocking_threads(LOOKUPS);
            if let Ok(runtime) = builder.build_local(LocalOptions::default()) {
                runtime.block_on(serve(server, self, inbox));
            }
        };
        std::thread::Builder::new()
            .name("migrate".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(run)?;
        Ok(sender)
    }
}

async fn serve(
    server: &'static Network,
    migrations: &'static Migrations,
    mut inbox: UnboundedReceiver<MigrationMessage>,
) {
    let (cache, kept) = (RefCell::default(), Notify::new());
    let thread = Rc::new(MigrationThread { server, migrations, cache, kept });
    spawn_local(Rc::clone(&thread).close_idle());
    while let Some(MigrationMessage { order, sender }) = inbox.recv().await {
        spawn_local(exchange::run(Rc::clone(&thread), order, sender));
    }
}

impl MigrationThread {
    /// A connection that was kept.
    pub(super) fn take_link(&self, target: &MigrateTarget) -> Option<TargetLink> {
        self.with_cache(|cache| cache.take(target))
    }

    /// Keeps a connection for the next order.
    pub(super) fn keep_link(&self, target: &MigrateTarget, mut link: TargetLink) {
        link.end_order();
        if link.is_quiet() {
            self.with_cache(|cache| cache.put(target, link, self.now_us()));
            self.kept.notify_one();
        }
    }

    async fn close_idle(self: Rc<Self>) {
        loop {
            self.kept.notified().await;
            while self.migrations.cached_links() > 0 {
                tokio::time::sleep(LOOK).await;
                self.with_cache(|cache| cache.close_idle(self.now_us()));
            }
        }
    }

    fn now_us(&self) -> i64 {
        self.server.keyspace.clock().monotonic_us()
    }

    fn with_cache<T>(&self, act: impl FnOnce(&mut LinkCache) -> T) -> T {
        let mut cache = self.cache.borrow_mut();
        let result = act(&mut cache);
        self.migrations.cached.store(cache.len(), Ordering::Relaxed);
        result
    }
}
