//! `stats` and its sub-reports, with the names that memcached's clients and exporters read.
//!
//! Invariant: what memcached counts and has no meaning here is told as memcached tells it where
//! nothing ever happened, so that who reads it finds what it looks for.

use std::sync::atomic::Ordering;

use keyspace::Count;
use proto::memcached::{Failure, Response, Words};

use super::items::unix_seconds;
use super::{MEMCACHED_VERSION, Turn};
use crate::clients::Peer;
use crate::config::MaxmemoryPolicy;
use crate::config::settings::{
    BIND, MAXCLIENTS, MAXMEMORY_POLICY, MEMCACHED_DUMP, MEMCACHED_FLUSH, MEMCACHED_ITEM_SIZE_MAX,
    MEMCACHED_PORT, MEMCACHED_SHUTDOWN, MEMCACHED_UDP_PORT, MEMCACHED_UNIXSOCKET, TCP_BACKLOG,
};
use crate::control::server::processor_seconds;
use crate::counters::Totals;
use crate::execute::Step;
use crate::gates;

impl Turn<'_> {
    /// Tells a report.
    pub(super) fn report(&mut self, mut words: Words<'_>) -> Step {
        match (words.next(), words.next()) {
            (None, _) => self.tell_general(),
            (Some(b"settings"), _) => self.tell_settings(),
            (Some(b"items"), _) => self.tell_items(),
            (Some(b"slabs"), _) => self.tell_slabs(),
            (Some(b"sizes"), _) => self.tell("sizes_status", "disabled"),
            (Some(b"conns"), _) => self.tell_connections(),
            (Some(b"reset"), _) => {
                self.worker.server.memcached.figures.reset();
                return self.say(Response::Line(b"RESET"));
            }
            (Some(b"detail"), Some(b"on" | b"off")) => return self.say(Response::Ok),
            (Some(b"detail"), Some(b"dump")) => {}
            (Some(b"detail"), _) => {
                return self.say(Response::Line(b"CLIENT_ERROR usage: stats detail on|off|dump"));
            }
            (Some(b"cachedump"), None) => {
                return self.say(Response::Line(b"CLIENT_ERROR bad command line"));
            }
            (Some(b"cachedump" | b"extstore" | b"proxy" | b"proxyfuncs"), _) => {}
            _ => return self.fail(Failure::Unknown),
        }
        self.say(Response::End)
    }

    fn tell(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        let (name, value) = (name.as_bytes(), value.as_bytes());
        self.say(Response::Statistic { name, value });
    }

    fn tell_general(&mut self) {
        let server = self.worker.server;
        let now = server.keyspace.clock().now_ms();
        let (user, system) = processor_seconds();
        self.tell("pid", std::process::id());
        self.tell("uptime", (now - server.started) / 1000);
        self.tell("time", unix_seconds(now));
        self.tell("version", MEMCACHED_VERSION);
        self.tell("libevent", "2.1.12-stable");
        self.tell("pointer_size", usize::BITS);
        self.tell("rusage_user", format_args!("{user:.6}"));
        self.tell("rusage_system", format_args!("{system:.6}"));
        self.tell("max_connections", server.config.get(MAXCLIENTS));
        self.tell("curr_connections", server.clients.len());
        self.tell("total_connections", server.stats.connections.load(Ordering::Relaxed));
        let rejected = server.stats.rejected_connections.load(Ordering::Relaxed);
        self.tell("rejected_connections", rejected);
        self.tell("connection_structures", server.clients.len());
        self.tell("response_obj_oom", 0);
        self.tell("read_buf_oom", 0);
        self.tell("reserved_fds", 0);
        for (name, count) in server.memcached.figures.told() {
            self.tell(name, count);
        }
        let counters = server.keyspace.counters();
        self.tell("get_expired", 0);
        self.tell("get_flushed", 0);
        let totals = Totals::of(server.all_worker_counters());
        self.tell("bytes_read", totals.net_in);
        self.tell("bytes_written", totals.net_out);
        self.tell("limit_maxbytes", server.budget.limit());
        self.tell("accepting_conns", 1);
        self.tell("listen_disabled_num", 0);
        self.tell("time_in_listen_disabled_us", 0);
        self.tell("threads", server.crew.size());
        self.tell("conn_yields", 0);
        for name in NEVER {
            self.tell(name, 0);
        }
        let items = server.keyspace.len(self.session.database);
        self.tell("bytes", server.keyspace.memory() - server.keyspace.fixed_memory());
        self.tell("curr_items", items);
        let stored = server.memcached.figures.told().find(|(name, _)| *name == "cmd_set");
        self.tell("total_items", stored.map_or(0, |(_, count)| count));
        self.tell("slab_global_page_pool", 0);
        self.tell("expired_unfetched", 0);
        self.tell("evicted_unfetched", 0);
        self.tell("evicted_active", 0);
        self.tell("evictions", counters.total(Count::Evicted));
        self.tell("reclaimed", counters.total(Count::Expired));
        self.tell("crawler_reclaimed", 0);
        self.tell("crawler_items_checked", 0);
        self.tell("lrutail_reflocked", 0);
        self.tell("lru_bumps_dropped", 0);
    }

    fn tell_settings(&mut self) {
        let server = self.worker.server;
        let config = &server.config;
        let text = |bytes: &[u8]| match bytes {
            b"" => "NULL".to_owned(),
            bytes => String::from_utf8_lossy(bytes).into_owned(),
        };
        let yes = |is: bool| if is { "yes" } else { "no" };
        let binds = config.get(BIND);
        let binds: Vec<&str> = binds.iter().map(|bind| bind.address.as_str()).collect();
        let evicts = config.get(MAXMEMORY_POLICY) != MaxmemoryPolicy::Noeviction;
        self.tell("maxbytes", server.budget.limit());
        self.tell("maxconns", config.get(MAXCLIENTS));
        self.tell("tcpport", config.get(MEMCACHED_PORT));
        self.tell("udpport", config.get(MEMCACHED_UDP_PORT));
        self.tell("inter", binds.join(","));
        self.tell("verbosity", 0);
        self.tell("oldest", 0);
        self.tell("evictions", if evicts { "on" } else { "off" });
        self.tell("domain_socket", text(&config.get(MEMCACHED_UNIXSOCKET)));
        self.tell("num_threads", server.crew.size());
        self.tell("stat_key_prefix", ":");
        self.tell("detail_enabled", "no");
        self.tell("cas_enabled", "yes");
        self.tell("tcp_backlog", config.get(TCP_BACKLOG));
        self.tell("binding_protocol", "auto-negotiate");
        self.tell("auth_enabled_sasl", yes(gates::needs_password(server)));
        self.tell("auth_enabled_ascii", yes(gates::needs_password(server)));
        self.tell("item_size_max", config.get(MEMCACHED_ITEM_SIZE_MAX));
        self.tell("maxconns_fast", "yes");
        self.tell("lru_crawler", "yes");
        self.tell("flush_enabled", yes(config.get(MEMCACHED_FLUSH)));
        self.tell("dump_enabled", yes(config.get(MEMCACHED_DUMP)));
        self.tell("shutdown_command", yes(config.get(MEMCACHED_SHUTDOWN)));
    }

    fn tell_items(&mut self) {
        let server = self.worker.server;
        let items = server.keyspace.len(self.session.database);
        if items == 0 {
            return;
        }
        let counters = server.keyspace.counters();
        self.tell("items:1:number", items);
        self.tell("items:1:age", 0);
        self.tell("items:1:mem_requested", server.keyspace.memory());
        self.tell("items:1:evicted", counters.total(Count::Evicted));
        for name in ["evicted_nonzero", "evicted_time", "outofmemory", "tailrepairs"] {
            self.tell(&format!("items:1:{name}"), 0);
        }
        self.tell("items:1:reclaimed", counters.total(Count::Expired));
        for name in ["expired_unfetched", "evicted_unfetched", "crawler_reclaimed"] {
            self.tell(&format!("items:1:{name}"), 0);
        }
    }

    /// One class of slabs stands for the arena, which has hundreds, and gives its pages back.
    fn tell_slabs(&mut self) {
        let server = self.worker.server;
        let used = server.budget.used_exactly();
        let items = server.keyspace.len(self.session.database);
        if items > 0 {
            let figures: Vec<(&str, u64)> = server.memcached.figures.told().collect();
            self.tell("1:total_pages", used.div_ceil(1 << 20));
            self.tell("1:used_chunks", items);
            for name in ["get_hits", "cmd_set", "delete_hits", "incr_hits", "decr_hits"] {
                let found = figures.iter().find(|(figure, _)| *figure == name);
                self.tell(&format!("1:{name}"), found.map_or(0, |(_, count)| *count));
            }
        }
        self.tell("active_slabs", u8::from(items > 0));
        self.tell("total_malloced", used);
    }

    fn tell_connections(&mut self) {
        let server = self.worker.server;
        let now = server.keyspace.clock().now_ms();
        for client in server.clients.all() {
            let of = |name: &str| format!("{}:{name}", client.descriptor);
            let (peer, local) = match (client.peer, client.local) {
                (Peer::Tcp(peer), Peer::Tcp(local)) => {
                    (format!("tcp:{peer}"), format!("tcp:{local}"))
                }
                _ => ("unix:".to_owned(), "unix:".to_owned()),
            };
            let idle_s = (now - client.live.last_active.load(Ordering::Relaxed)).max(0) / 1000;
            self.tell(&of("addr"), peer);
            self.tell(&of("listen_addr"), local);
            self.tell(&of("state"), "conn_parse_cmd");
            self.tell(&of("secs_since_last_cmd"), idle_s);
        }
    }
}

/// What never happens here: there are no slabs to move and no background threads of memcached's.
const NEVER: &[&str] = &[
    "hash_power_level",
    "hash_bytes",
    "hash_is_expanding",
    "slab_reassign_rescues",
    "slab_reassign_chunk_rescues",
    "slab_reassign_evictions_nomem",
    "slab_reassign_inline_reclaim",
    "slab_reassign_busy_items",
    "slab_reassign_busy_deletes",
    "slab_reassign_running",
    "slabs_moved",
    "lru_crawler_running",
    "lru_crawler_starts",
    "lru_maintainer_juggles",
    "malloc_fails",
    "log_worker_dropped",
    "log_worker_written",
    "log_watcher_skipped",
    "log_watcher_sent",
    "log_watchers",
    "unexpected_napi_ids",
    "round_robin_fallback",
];
