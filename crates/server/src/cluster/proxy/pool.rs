//! The links to each node: some that sessions share, and one for each command that waits there.
//!
//! Invariants: a link has one node, protocol and database for life; there are no more shared links
//! to these than `SHARED_MAX`; one that nobody used for long is closed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cluster::NodeId;
use config::settings::CLUSTER_PROXY_TIMEOUT;
use proto::Resp;
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, spawn_local};
use tokio::time::{sleep, timeout};

use super::greeting;
use super::link::{Link, LinkOrder, LinkState, Patience, refuse_all};
use crate::cluster::start::ClusterContext;

/// So many links to one node are shared, for each protocol and database.
const SHARED_MAX: usize = 4;

/// So many links wait for the next command that waits.
const SPARE_MAX: usize = 16;

/// So long one stays that nobody uses: less than the `timeout` that an operator would set.
const IDLE_MAX_US: i64 = 10_000_000;

/// Between two looks for such.
const LOOK: Duration = Duration::from_secs(2);

/// What a link is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct LinkKey {
    pub(super) node: NodeId,
    pub(super) resp: Resp,
    pub(super) database: usize,
    pub(super) is_encrypted: bool,
}

/// A way to a link's task. Without one the link ends, once all has its reply.
pub(super) struct LinkHandle {
    orders: UnboundedSender<LinkOrder>,
    pub(super) state: Rc<LinkState>,
    task: AbortHandle,
}

/// All links.
pub(super) struct LinkPools {
    pub(super) context: ClusterContext,
    pools: RefCell<Vec<LinkPool>>,
    /// A link was opened.
    opened: Notify,
}

struct LinkPool {
    key: LinkKey,
    shared: Vec<LinkHandle>,
    /// Links on which nothing waits at present.
    spare: Vec<LinkHandle>,
}

/// A link that stands is counted.
struct CountedLink(ClusterContext);

impl LinkPools {
    pub(super) fn new(context: ClusterContext) -> Self {
        Self { context, pools: RefCell::default(), opened: Notify::new() }
    }

    /// Sends an order by a link that sessions share.
    pub(super) fn send(&self, key: LinkKey, order: LinkOrder) {
        self.with_pool(key, |pool| {
            pool.shared.retain(|link| !link.state.is_over.get());
            let may_open = pool.shared.len() < SHARED_MAX;
            let least = pool.shared.iter().min_by_key(|link| link.state.outstanding.get());
            let idle = least.filter(|link| !may_open || link.state.outstanding.get() == 0);
            let order = match idle {
                Some(link) => link.send(order),
                None => Some(order),
            };
            if let Some(order) = order {
                let link = self.open(key, self.patience());
                link.send(order);
                pool.shared.push(link);
            }
        });
    }

    /// A link for a command that waits, for as long as the node lets it.
    pub(super) fn take(&self, key: LinkKey) -> LinkHandle {
        let spare = self.with_pool(key, |pool| {
            pool.spare.retain(|link| !link.state.is_over.get());
            pool.spare.pop()
        });
        spare.unwrap_or_else(|| self.open(key, Box::new(|| None)))
    }

    /// Keeps a link for the next command that waits.
    pub(super) fn keep(&self, key: LinkKey, link: LinkHandle) {
        self.with_pool(key, |pool| {
            let is_quiet = !link.state.is_over.get() && link.state.outstanding.get() == 0;
            if is_quiet && pool.spare.len() < SPARE_MAX {
                pool.spare.push(link);
            }
        });
    }

    /// How long a node may be silent while a reply is due.
    fn patience(&self) -> Patience {
        let config = &self.context.server.config;
        Box::new(move || Some(Duration::from_millis(config.get(CLUSTER_PROXY_TIMEOUT))))
    }

    /// Begins a link; what is sent by it waits until it stands.
    fn open(&self, key: LinkKey, patience: Patience) -> LinkHandle {
        let (orders, received) = unbounded_channel();
        let state = Rc::new(LinkState::default());
        state.used_us.set(self.now_us());
        let task = spawn_local(serve(self.context, key, received, Rc::clone(&state), patience));
        self.opened.notify_one();
        LinkHandle { orders, state, task: task.abort_handle() }
    }

    /// Closes links that nobody uses.
    pub(super) async fn close_idle(self: Rc<Self>) {
        loop {
            self.opened.notified().await;
            while !self.pools.borrow().is_empty() {
                sleep(LOOK).await;
                let now_us = self.now_us();
                let is_wanted = |link: &LinkHandle| link.is_wanted(now_us);
                self.pools.borrow_mut().retain_mut(|pool| {
                    pool.shared.retain(is_wanted);
                    pool.spare.retain(is_wanted);
                    !pool.shared.is_empty() || !pool.spare.is_empty()
                });
            }
        }
    }

    fn now_us(&self) -> i64 {
        self.context.server.keyspace.clock().monotonic_us()
    }

    fn with_pool<T>(&self, key: LinkKey, act: impl FnOnce(&mut LinkPool) -> T) -> T {
        let mut pools = self.pools.borrow_mut();
        let place = pools.iter().position(|pool| pool.key == key).unwrap_or_else(|| {
            pools.push(LinkPool { key, shared: Vec::new(), spare: Vec::new() });
            pools.len() - 1
        });
        act(&mut pools[place])
    }
}

impl LinkHandle {
    /// Sends an order; gives it back if the link takes no more.
    pub(super) fn send(&self, order: LinkOrder) -> Option<LinkOrder> {
        self.state.outstanding.set(self.state.outstanding.get() + 1);
        self.orders.send(order).err().map(|back| back.0)
    }

    /// Ends the link at once, whatever waits there.
    pub(super) fn abort(self) {
        self.task.abort();
    }

    fn is_wanted(&self, now_us: i64) -> bool {
        let LinkState { outstanding, is_over, used_us, .. } = &*self.state;
        !is_over.get() && (outstanding.get() > 0 || now_us - used_us.get() < IDLE_MAX_US)
    }
}

/// The life of a link.
async fn serve(
    context: ClusterContext,
    key: LinkKey,
    orders: UnboundedReceiver<LinkOrder>,
    state: Rc<LinkState>,
    patience: Patience,
) {
    let server = context.server;
    let limit = Duration::from_millis(server.config.get(CLUSTER_PROXY_TIMEOUT));
    let connected = timeout(limit, greeting::connect(context, key)).await;
    let connected = connected.unwrap_or_else(|_| Err("it has not answered in time".to_owned()));
    let (stream, id) = match connected {
        Ok(connected) => connected,
        Err(why) => return refuse_all(orders, &state, &why),
    };
    state.client_id.set(id);
    let _counted = CountedLink::new(context);
    Link::new(stream, orders, state, (server.keyspace.clock(), patience)).run().await;
}

impl CountedLink {
    fn new(context: ClusterContext) -> Self {
        context.node.proxy.stats.links.fetch_add(1, Ordering::Relaxed);
        Self(context)
    }
}

impl Drop for CountedLink {
    fn drop(&mut self) {
        self.0.node.proxy.stats.links.fetch_sub(1, Ordering::Relaxed);
    }
}
