//! The section Server: which process this is and since when.
//!
//! Invariant: `redis_version` is what clients may rely on; what we are stands beside it.

use std::ffi::CStr;
use std::sync::LazyLock;

use config::settings::HZ;
use engine::runtime::version::{self, APUS_VERSION};

use super::info_text::InfoText;
use crate::server::Server;

/// Bits of the clock that ages keys.
const LRU_BITS: u32 = 24;

/// What stays the same, and takes the system longer to tell than most sections take.
static SYSTEM: LazyLock<String> = LazyLock::new(|| {
    let system = rustix::system::uname();
    let parts = [system.sysname(), system.release(), system.machine()];
    parts.map(CStr::to_string_lossy).join(" ")
});
static EXECUTABLE: LazyLock<String> = LazyLock::new(|| {
    std::env::current_exe().map(|path| path.display().to_string()).unwrap_or_default()
});

pub(super) fn write(server: &Server, report: &mut InfoText) {
    let now_us = server.keyspace.clock().now_us();
    let seconds = now_us / 1_000_000;
    let uptime = (now_us / 1000 - server.identity.started).max(0) / 1000;
    let shown = |name: &[u8]| {
        let value = server.config.show(name).unwrap_or_default();
        String::from_utf8_lossy(&value).into_owned()
    };
    let commit = version::commit();
    report.field("redis_version", version::of_redis(&server.config));
    report.field("server_name", "apus");
    report.field("apus_version", APUS_VERSION);
    report.field("redis_git_sha1", commit.hash);
    report.field("redis_git_dirty", u8::from(commit.is_altered));
    report.field("redis_build_id", commit.date);
    report.field("redis_mode", version::mode(&server.config));
    report.field("os", &*SYSTEM);
    report.field("arch_bits", usize::BITS);
    report.field("monotonic_clock", "POSIX clock_gettime");
    report.field("multiplexing_api", "epoll");
    report.field("atomicvar_api", "rust-core");
    report.field("gcc_version", "0.0.0");
    report.field("process_id", std::process::id());
    report.field("process_supervised", shown(b"supervised"));
    report.field("run_id", &server.identity.run_id);
    let port = server.identity.port();
    report.field("tcp_port", port);
    report.field("server_time_usec", now_us);
    report.field("uptime_in_seconds", uptime);
    report.field("uptime_in_days", uptime / 86_400);
    let hz = server.config.get(HZ);
    report.field("hz", hz);
    report.field("configured_hz", hz);
    report.field("lru_clock", seconds & ((1 << LRU_BITS) - 1));
    report.field("executable", &*EXECUTABLE);
    let file = server.config.path().map(|path| path.display().to_string());
    report.field("config_file", file.unwrap_or_default());
    report.field("io_threads_active", 0);
    if let Some(left) = server.shutdown.waits_for_ms(server) {
        report.field("shutdown_in_milliseconds", left);
    }
    write_listeners(report, &shown(b"bind"), port, &shown(b"unixsocket"));
}

fn write_listeners(report: &mut InfoText, bind: &str, port: u16, socket: &str) {
    let mut number = 0;
    let mut listener = |value: String| {
        report.field(&format!("listener{number}"), value);
        number += 1;
    };
    if port != 0 {
        let binds =
            bind.split(' ').map(|address| format!("bind={},", address.trim_start_matches('-')));
        listener(format!("name=tcp,{}port={port}", binds.collect::<String>()));
    }
    if !socket.is_empty() {
        listener(format!("name=unix,bind={socket}"));
    }
}
