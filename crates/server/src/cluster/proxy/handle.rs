//! The proxy as other rooms see it: a batch goes to the thread, and its replies come back.
//!
//! Invariant: the thread begins with the first batch, and there is one; a batch that it cannot take
//! is answered all the same.

use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Mutex, OnceLock};

use base::io_error_text::strerror;
use engine::runtime::lanes::STACK_BYTES;
use engine::session::{ClusterProxy, ForwardOrder};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::spawn_local;

use super::exchange;
use super::pool::LinkPools;
use crate::cluster::start::ClusterContext;

/// What sends requests on.
#[derive(Default)]
pub(crate) struct RequestProxy {
    context: OnceLock<ClusterContext>,
    /// To the thread, once there is one.
    sender: Mutex<Option<UnboundedSender<ForwardOrder>>>,
    pub(crate) stats: ProxyStats,
}

/// What was sent on, and what became of it.
#[derive(Default)]
pub(crate) struct ProxyStats {
    /// Requests that were sent on.
    pub(crate) requests: AtomicU64,
    /// How often one was sent to another node than at first.
    pub(crate) redirections: AtomicU64,
    /// Requests that have no reply of their node.
    pub(crate) errors: AtomicU64,
    /// Links that stand.
    pub(crate) links: AtomicUsize,
}

impl RequestProxy {
    /// Says what the links need to know; once.
    pub(in crate::cluster) fn open(&self, context: ClusterContext) {
        let _ = self.context.set(context);
    }

    /// Gives a batch to the thread; an error gives the batch back, and says why.
    fn submit(&self, order: ForwardOrder) -> Result<(), (ForwardOrder, String)> {
        let context = *self.context.get().expect("the node opens the proxy before its first table");
        let mut thread = self.sender.lock().expect("no critical section here panics");
        let inbox = match &mut *thread {
            Some(inbox) => inbox,
            none => match spawn(context) {
                Ok(inbox) => none.insert(inbox),
                Err(error) => return Err((order, strerror(&error))),
            },
        };
        inbox.send(order).map_err(|back| {
            // The thread got nothing from the system to wait with, and has ended.
            *thread = None;
            (back.0, "no event loop".to_owned())
        })
    }
}

impl ClusterProxy for RequestProxy {
    fn forward(&'static self, order: ForwardOrder) {
        if let Err((order, why)) = self.submit(order) {
            exchange::refuse(self, order, &why);
        }
    }
}

fn spawn(context: ClusterContext) -> io::Result<UnboundedSender<ForwardOrder>> {
    let (sender, inbox) = unbounded_channel();
    let run = move || {
        let mut builder = Builder::new_current_thread();
        if let Ok(runtime) = builder.enable_all().build_local(LocalOptions::default()) {
            runtime.block_on(serve(context, inbox));
        }
    };
    std::thread::Builder::new()
        .name("cluster-proxy".to_owned())
        .stack_size(STACK_BYTES)
        .spawn(run)?;
    Ok(sender)
}

async fn serve(context: ClusterContext, mut inbox: UnboundedReceiver<ForwardOrder>) {
    let pools = Rc::new(LinkPools::new(context));
    spawn_local(Rc::clone(&pools).close_idle());
    while let Some(order) = inbox.recv().await {
        spawn_local(exchange::run(Rc::clone(&pools), order));
    }
}
