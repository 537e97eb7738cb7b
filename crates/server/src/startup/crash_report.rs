//! What a crash report says of the server, beside what any process can say, and when its loops are
//! looked at.
//!
//! Invariant: what is asked for by a signal handler reads atomics only.

use std::fmt::Arguments;
use std::io;
use std::sync::Mutex;
use std::time::Duration;

use config::settings::{
    CRASH_LOG_ENABLED, DEBUG_CONTEXT, HIDE_USER_DATA_FROM_LOG, USE_EXIT_ON_PANIC, WATCHDOG_PERIOD,
};
use crash::{LineFormat, Part, ReportSource};
use engine::runtime::event_loops::Heartbeat;
use engine::runtime::failpoint;
use engine::runtime::signal_safe_log;
use engine::runtime::version;
use engine::session::client_info::describe;
use tokio::runtime::Handle;

use crate::control::server::info;
use crate::net::worker::turns_of;
use crate::server::Server;

/// Shorter periods are taken for this one, as in Redis.
const WATCH_PERIOD_LEAST: Duration = Duration::from_millis(200);

struct ServerReportSource {
    server: &'static Server,
    program: String,
    /// The loop of the main thread, which serves nobody and is not among the others.
    main: Handle,
    main_heartbeat: Mutex<Heartbeat>,
}

/// Reports crashes from now on. Called within the main thread's runtime.
pub(crate) fn begin(server: &'static Server) -> io::Result<()> {
    crash::begin(Box::leak(Box::new(ServerReportSource {
        server,
        program: format!("Apus {}", version::full()),
        main: Handle::current(),
        main_heartbeat: Mutex::default(),
    })))
}

impl ReportSource for ServerReportSource {
    fn is_enabled(&self) -> bool {
        self.server.config.get(CRASH_LOG_ENABLED)
    }

    fn exits_on_panic(&self) -> bool {
        self.server.config.get(USE_EXIT_ON_PANIC)
    }

    fn write(&self, manner: LineFormat, line: Arguments<'_>) {
        signal_safe_log::write_line(manner == LineFormat::Bare, line);
    }

    fn program(&self) -> &str {
        &self.program
    }

    fn parts(&self, client: Option<u64>) -> Vec<Part> {
        failpoint::point_in_report();
        let server = self.server;
        let mut parts = vec![Part::new("VERSIONS", move || versions(server))];
        let context = server.config.get(DEBUG_CONTEXT);
        if !context.is_empty() {
            let text = String::from_utf8_lossy(&context).into_owned();
            parts.push(Part::new("DEBUG CONTEXT", || text));
        }
        parts.extend(info::all().map(|(title, tell)| {
            let tell = move || {
                failpoint::point_in_report();
                tell(server)
            };
            Part::new(format!("INFO OUTPUT: {title}"), tell)
        }));
        // The list names the client, and where it is.
        if let Some(id) = client
            && !server.config.get(HIDE_USER_DATA_FROM_LOG)
        {
            parts.push(Part::new("CLIENT LIST OUTPUT: of the client above", move || {
                let client = server.clients.find(id);
                let now = server.keyspace.clock().now_ms();
                client.map_or_else(String::new, |client| describe(server, &client, now))
            }));
        }
        parts
    }

    fn watch_period(&self) -> Option<Duration> {
        match self.server.config.get(WATCHDOG_PERIOD) {
            0 => None,
            millis => Some(Duration::from_millis(millis.into()).max(WATCH_PERIOD_LEAST)),
        }
    }

    fn stalled_loop(&self, period: Duration) -> Option<String> {
        let now_us = self.server.keyspace.clock().monotonic_us();
        let main = turns_of(&self.main.metrics());
        let mut heartbeat = self.main_heartbeat.lock().expect("nothing here panics");
        if heartbeat.stops(main, now_us, period) {
            return Some("the main thread".to_owned());
        }
        let lane = self.server.threads.loops.stalled_loop(now_us, period)?;
        Some(format!("worker-{lane}"))
    }
}

fn versions(server: &Server) -> String {
    let uname = rustix::system::uname();
    let [system, release, machine] = [uname.sysname(), uname.release(), uname.machine()];
    let [system, release, machine] =
        [system, release, machine].map(|text| text.to_string_lossy().into_owned());
    format!("{}\n{system} {release} {machine}", version::line(&server.config))
}
