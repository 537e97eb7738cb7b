//! The links to each node: some that sessions share, and one for each command that waits there.
//!
//! Invariants: a link has one node, protocol, database and use for life; there are no more shared
//! links to these than `SHARED_MAX` beside those that a slow request holds up, and `LINKS_MAX`
//! together; one that nobody used for long is closed.

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

/// So many links to one node are shared, for each protocol, database and use.
const SHARED_MAX: usize = 4;

/// So many with those whose first request is slow.
const LINKS_MAX: usize = 32;

/// A link whose first request has had no reply for so long takes no more while another may.
const LATE_US: i64 = 50_000;

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
    pub(super) purpose: LinkPurpose,
}

/// What goes by a link. Replies come in order, so what may be held up at its node for long keeps
/// from nobody what may not.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LinkPurpose {
    /// What is asked about other links.
    Questions,
    /// What changes nothing.
    Reads,
    /// What a pause, a full disk or a failover may hold.
    Writes,
    /// What may run for as long as it likes.
    Programs,
    /// One request at a time, of one session.
    Alone,
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
        let now_us = self.now_us();
        self.with_pool(key, |pool| {
            pool.shared.retain(|link| !link.state.is_over.get());
            let loads: Vec<LinkLoad> =
                pool.shared.iter().map(|link| link.state.load(now_us)).collect();
            let order = match choose(&loads) {
                Some(place) => pool.shared[place].send(order, now_us),
                None => Some(order),
            };
            if let Some(order) = order {
                let link = self.open(key);
                link.send(order, now_us);
                pool.shared.push(link);
            }
        });
    }

    /// Sends an order by a link that was taken; gives it back if the link takes no more.
    pub(super) fn send_by(&self, link: &LinkHandle, order: LinkOrder) -> Option<LinkOrder> {
        link.send(order, self.now_us())
    }

    /// A link for one session.
    pub(super) fn take(&self, key: LinkKey) -> LinkHandle {
        let spare = self.with_pool(key, |pool| {
            pool.spare.retain(|link| !link.state.is_over.get());
            pool.spare.pop()
        });
        spare.unwrap_or_else(|| self.open(key))
    }

    /// Keeps a link for the next session. There are as many as were in use at once not long ago:
    /// the last one that was kept is taken first, and the others close as nobody uses them.
    pub(super) fn keep(&self, key: LinkKey, link: LinkHandle) {
        self.with_pool(key, |pool| {
            let is_quiet = !link.state.is_over.get() && link.state.outstanding.get() == 0;
            if is_quiet {
                pool.spare.push(link);
            }
        });
    }

    /// How long a node may be silent while a reply is due.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_millis(self.context.server.config.get(CLUSTER_PROXY_TIMEOUT))
    }

    /// Begins a link; what is sent by it waits until it stands.
    fn open(&self, key: LinkKey) -> LinkHandle {
        let config = &self.context.server.config;
        let patience: Patience =
            Box::new(move || Duration::from_millis(config.get(CLUSTER_PROXY_TIMEOUT)));
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

/// How busy a shared link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LinkLoad {
    outstanding: usize,
    is_late: bool,
}

impl LinkState {
    fn load(&self, now_us: i64) -> LinkLoad {
        let outstanding = self.outstanding.get();
        // Where the connection does not stand yet, another would not, either.
        let is_under_way = outstanding > 0 && self.is_standing.get();
        LinkLoad { outstanding, is_late: is_under_way && now_us - self.first_us.get() > LATE_US }
    }
}

/// The link that takes an order, of links so busy; none if another one is to be opened.
fn choose(loads: &[LinkLoad]) -> Option<usize> {
    let least_of = |may_be_late: bool| {
        let counts = |it: &(usize, &LinkLoad)| may_be_late || !it.1.is_late;
        loads.iter().enumerate().filter(counts).min_by_key(|it| it.1.outstanding)
    };
    let prompt = loads.iter().filter(|load| !load.is_late).count();
    let may_open = prompt < SHARED_MAX && loads.len() < LINKS_MAX;
    let chosen = match may_open {
        true => least_of(false).filter(|it| it.1.outstanding == 0),
        false => least_of(false).or_else(|| least_of(true)),
    };
    chosen.map(|(place, _)| place)
}

impl LinkHandle {
    fn send(&self, order: LinkOrder, now_us: i64) -> Option<LinkOrder> {
        let outstanding = self.state.outstanding.get();
        if outstanding == 0 {
            self.state.first_us.set(now_us);
        }
        self.state.outstanding.set(outstanding + 1);
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
    let (stream, identity) = match connected {
        Ok(connected) => connected,
        Err(why) => return refuse_all(orders, &state, &why),
    };
    if let Some(identity) = identity {
        let _ = state.identity.set(identity);
    }
    state.first_us.set(server.keyspace.clock().monotonic_us());
    state.is_standing.set(true);
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

#[cfg(test)]
mod tests {
    use super::{LINKS_MAX, LinkLoad, SHARED_MAX, choose};

    fn prompt(outstanding: usize) -> LinkLoad {
        LinkLoad { outstanding, is_late: false }
    }

    fn late(outstanding: usize) -> LinkLoad {
        LinkLoad { outstanding, is_late: true }
    }

    #[test]
    fn what_is_slow_holds_up_nothing_that_comes_later() {
        for (loads, chosen) in [
            (vec![], None),
            (vec![prompt(1)], None),
            (vec![prompt(1), prompt(0)], Some(1)),
            (vec![late(1), prompt(0)], Some(1)),
            (vec![prompt(9), prompt(8), prompt(7), prompt(8)], Some(2)),
            // Four that are slow leave room for four others.
            (vec![late(1); SHARED_MAX], None),
            ([vec![late(1); SHARED_MAX], vec![prompt(3); SHARED_MAX]].concat(), Some(SHARED_MAX)),
            // There is an end to that.
            ([vec![late(4); LINKS_MAX - 1], vec![prompt(7)]].concat(), Some(LINKS_MAX - 1)),
            ([vec![late(4); LINKS_MAX - 1], vec![late(2)]].concat(), Some(LINKS_MAX - 1)),
        ] {
            assert_eq!(choose(&loads), chosen, "{loads:?}");
        }
    }
}
