//! `stats` and its sub-reports, with the names that memcached's clients and exporters read.
//!
//! Invariant: what memcached counts and has no meaning here is told as memcached tells it where
//! nothing ever happened, so that a monitoring program finds what it looks for.

use std::sync::atomic::Ordering;

use base::CpuTime;
use config::settings::{
    BIND, LOGLEVEL, MAXCLIENTS, MAXMEMORY_POLICY, MEMCACHED_DUMP, MEMCACHED_FLUSH,
    MEMCACHED_ITEM_SIZE_MAX, MEMCACHED_PORT, MEMCACHED_PROTOCOL, MEMCACHED_SHUTDOWN, MEMCACHED_TLS,
    MEMCACHED_UDP_PORT, MEMCACHED_UNIXSOCKET, MEMCACHED_UNIXSOCKETPERM, TCP_BACKLOG, TIMEOUT,
    TLS_AUTH_CLIENTS, TLS_CA_CERT_FILE, TLS_CERT_FILE, TLS_CIPHERS, TLS_KEY_FILE, TLS_PROTOCOLS,
    TLS_SESSION_CACHING,
};
use config::{LogLevel, MaxmemoryPolicy, MemcachedProtocol, TlsAuthClients};
use engine::clients::registry::{Peer, client_flags};
use engine::runtime::counters::Totals;
use engine::session::Step;
use keyspace::Count;
use proto::memcached::{Failure, Form, Response, Words};

use super::items::unix_seconds;
use super::{EncryptionFigures, MEMCACHED_VERSION, RequestContext, auth};

impl RequestContext<'_> {
    /// Tells a report.
    pub(super) fn report(&mut self, mut words: Words<'_>) -> Step {
        let is_text = matches!(self.request.form, Form::Text { .. });
        match (words.next(), words.next()) {
            (None, _) => self.report_general(),
            (Some(b"settings"), _) => self.report_settings(),
            (Some(b"items"), _) => self.report_items(),
            (Some(b"slabs"), _) => self.report_slabs(),
            (Some(b"sizes"), _) => self.stat("sizes_status", "disabled"),
            // In text there is no end behind it.
            (Some(b"sizes_enable" | b"sizes_disable"), _) => {
                self.stat("sizes_status", "disabled");
                if is_text {
                    return Step::Done;
                }
            }
            (Some(b"conns"), _) if is_text => self.report_connections(),
            (Some(b"reset"), _) => {
                let memcached = &self.server.memcached;
                memcached.counters.reset();
                memcached.details.reset();
                memcached.idle_kicks.store(0, Ordering::Relaxed);
                return self.respond(Response::Line(b"RESET"));
            }
            (Some(b"detail"), Some(state @ (b"on" | b"off"))) => {
                self.server.memcached.details.set_on(state == b"on");
                return self.respond(Response::Ok);
            }
            (Some(b"detail"), Some(b"dump")) => {
                if is_text {
                    for line in self.server.memcached.details.lines() {
                        self.respond(Response::Line(&line));
                    }
                }
            }
            (Some(b"detail"), _) if is_text => {
                return self.fail(Failure::Client("usage: stats detail on|off|dump"));
            }
            (Some(b"cachedump"), Some(class)) if is_text => {
                return match words.next() {
                    Some(limit) => self.dump_class(class, limit),
                    None => self.fail(Failure::Client("bad command line")),
                };
            }
            (Some(b"cachedump"), None) if is_text => {
                return self.fail(Failure::Client("bad command line"));
            }
            (Some(b"extstore"), _) if is_text => {}
            _ if is_text => return self.fail(Failure::Unknown),
            // There fewer reports can be asked for.
            _ => return self.respond(Response::NotFound),
        }
        self.respond(Response::End)
    }

    fn stat(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = value.to_string();
        let (name, value) = (name.as_bytes(), value.as_bytes());
        self.respond(Response::Statistic { name, value });
    }

    fn report_general(&mut self) {
        let server = self.server;
        let now = server.keyspace.clock().now_ms();
        let CpuTime { user, system } = CpuTime::of_process();
        self.stat("pid", std::process::id());
        self.stat("uptime", (now - server.identity.started) / 1000);
        self.stat("time", unix_seconds(now));
        self.stat("version", MEMCACHED_VERSION);
        self.stat("libevent", "2.1.12-stable");
        self.stat("pointer_size", usize::BITS);
        self.stat("rusage_user", format_args!("{:.6}", user.as_secs_f64()));
        self.stat("rusage_system", format_args!("{:.6}", system.as_secs_f64()));
        self.stat("max_connections", server.config.get(MAXCLIENTS));
        self.stat("curr_connections", server.clients.count());
        self.stat("total_connections", server.observed.stats.connections.load(Ordering::Relaxed));
        let rejected = server.observed.stats.rejected_connections.load(Ordering::Relaxed);
        self.stat("rejected_connections", rejected);
        self.stat("connection_structures", server.clients.count());
        for (name, count) in server.memcached.counters.sums_since_reset() {
            self.stat(name, count);
        }
        if server.config.get(TIMEOUT) > 0 {
            self.stat("idle_kicks", server.memcached.idle_kicks.load(Ordering::Relaxed));
        }
        let counters = server.keyspace.counters();
        let totals = Totals::of(server.threads.all_worker_counters());
        self.stat("bytes_read", totals.net_in);
        self.stat("bytes_written", totals.net_out);
        self.stat("limit_maxbytes", server.memory.budget.configured());
        self.stat("accepting_conns", 1);
        self.stat("threads", server.threads.worker_count());
        let watchers = &server.memcached.watchers;
        self.stat("log_worker_written", watchers.lines());
        self.stat("log_watchers", watchers.len());
        self.report_certificates();
        for name in NEVER_OF_BOTH.iter().chain(NEVER) {
            self.stat(name, 0);
        }
        let items = server.keyspace.len(self.session.database);
        self.stat("bytes", server.keyspace.memory() - server.keyspace.fixed_memory());
        self.stat("curr_items", items);
        self.stat("expired_unfetched", counters.total(Count::ExpiredUnread));
        self.stat("evictions", counters.total(Count::Evicted));
        self.stat("reclaimed", counters.total(Count::Expired));
    }

    /// What memcached tells of TLS where its clients speak it.
    fn report_certificates(&mut self) {
        let server = self.server;
        if !server.config.get(MEMCACHED_TLS) {
            return;
        }
        let EncryptionFigures { handshake_errors, changed_us } = &server.memcached.encryption;
        self.stat("ssl_handshake_errors", handshake_errors.load(Ordering::Relaxed));
        let now_us = server.keyspace.clock().monotonic_us();
        let age_us = now_us - changed_us.load(Ordering::Relaxed);
        self.stat("time_since_server_cert_refresh", age_us / 1_000_000);
    }

    /// The settings of TLS, told where clients of memcached speak it.
    fn report_encryption(&mut self) {
        let config = &self.server.config;
        let is_on = config.get(MEMCACHED_TLS);
        self.stat("ssl_enabled", if is_on { "yes" } else { "no" });
        if !is_on {
            return;
        }
        let text = |bytes: &[u8]| match bytes {
            b"" => "NULL".to_owned(),
            bytes => String::from_utf8_lossy(bytes).into_owned(),
        };
        let protocols = text(&config.get(TLS_PROTOCOLS)).to_ascii_lowercase();
        let is_older = protocols == "null" || protocols.contains("tlsv1.2");
        self.stat("ssl_chain_cert", text(&config.get(TLS_CERT_FILE)));
        self.stat("ssl_key", text(&config.get(TLS_KEY_FILE)));
        self.stat(
            "ssl_verify_mode",
            match config.get(TLS_AUTH_CLIENTS) {
                TlsAuthClients::No => 0,
                TlsAuthClients::Optional => 1,
                TlsAuthClients::Yes => 2,
            },
        );
        // PEM.
        self.stat("ssl_keyformat", 1);
        self.stat("ssl_ciphers", text(&config.get(TLS_CIPHERS)));
        self.stat("ssl_ca_cert", text(&config.get(TLS_CA_CERT_FILE)));
        self.stat("ssl_wbuf_size", RECORD);
        let caches = config.get(TLS_SESSION_CACHING);
        self.stat("ssl_session_cache", if caches { "yes" } else { "no" });
        self.stat("ssl_kernel_tls", "no");
        self.stat("ssl_min_version", if is_older { "tlsv1.2" } else { "tlsv1.3" });
    }

    fn report_settings(&mut self) {
        let server = self.server;
        let config = &server.config;
        let text = |bytes: &[u8]| match bytes {
            b"" => "NULL".to_owned(),
            bytes => String::from_utf8_lossy(bytes).into_owned(),
        };
        let yes = |is: bool| if is { "yes" } else { "no" };
        let binds = config.get(BIND);
        let binds: Vec<&str> = binds.iter().map(|bind| bind.address.as_str()).collect();
        let evicts = config.get(MAXMEMORY_POLICY) != MaxmemoryPolicy::Noeviction;
        self.stat("maxbytes", server.memory.budget.configured());
        self.stat("maxconns", config.get(MAXCLIENTS));
        self.stat("tcpport", config.get(MEMCACHED_PORT));
        self.stat("udpport", config.get(MEMCACHED_UDP_PORT));
        self.stat("inter", binds.join(","));
        self.stat(
            "verbosity",
            match config.get(LOGLEVEL) {
                LogLevel::Debug => 2,
                LogLevel::Verbose => 1,
                _ => 0,
            },
        );
        self.stat("oldest", 0);
        self.stat("evictions", if evicts { "on" } else { "off" });
        self.stat("domain_socket", text(&config.get(MEMCACHED_UNIXSOCKET)));
        self.stat("umask", format_args!("{:o}", config.get(MEMCACHED_UNIXSOCKETPERM)));
        self.stat("idle_timeout", config.get(TIMEOUT));
        self.stat("num_threads", server.threads.worker_count());
        self.stat("tcp_backlog", config.get(TCP_BACKLOG));
        self.stat(
            "binding_protocol",
            match config.get(MEMCACHED_PROTOCOL) {
                MemcachedProtocol::Auto => "auto-negotiate",
                MemcachedProtocol::Text => "ascii",
                MemcachedProtocol::Binary => "binary",
            },
        );
        self.stat("auth_enabled_sasl", yes(auth::needs_login(server)));
        self.stat("auth_enabled_ascii", yes(auth::needs_login(server)));
        self.stat("item_size_max", config.get(MEMCACHED_ITEM_SIZE_MAX));
        self.stat("flush_enabled", yes(config.get(MEMCACHED_FLUSH)));
        self.stat("dump_enabled", yes(config.get(MEMCACHED_DUMP)));
        self.stat("shutdown_command", yes(config.get(MEMCACHED_SHUTDOWN)));
        self.stat("detail_enabled", yes(server.memcached.details.is_on()));
        for (name, value) in FIXED_SETTINGS {
            self.stat(name, value);
        }
        self.report_encryption();
    }

    fn report_items(&mut self) {
        let server = self.server;
        let items = server.keyspace.len(self.session.database);
        if items == 0 {
            return;
        }
        let counters = server.keyspace.counters();
        self.stat("items:1:number", items);
        self.stat("items:1:age", 0);
        self.stat("items:1:mem_requested", server.keyspace.memory());
        self.stat("items:1:evicted", counters.total(Count::Evicted));
        let idle_s = server.memcached.evicted_idle_s.load(Ordering::Relaxed);
        self.stat("items:1:evicted_time", idle_s);
        self.stat("items:1:reclaimed", counters.total(Count::Expired));
        self.stat("items:1:expired_unfetched", counters.total(Count::ExpiredUnread));
        for (name, counter) in [
            ("evicted_nonzero", "evicted_nonzero"),
            ("evicted_unfetched", "evicted_unfetched"),
            ("outofmemory", "store_no_memory"),
        ] {
            self.stat(&format!("items:1:{name}"), server.memcached.counters.of(counter));
        }
        for name in NEVER_OF_BOTH.iter().chain(NEVER_OF_ITEMS) {
            self.stat(&format!("items:1:{name}"), 0);
        }
    }

    /// One class of slabs stands for the arena, which has hundreds, and gives its pages back.
    fn report_slabs(&mut self) {
        let server = self.server;
        let used = server.memory.budget.used_exactly();
        let items = server.keyspace.len(self.session.database);
        if items > 0 {
            // A chunk is as large as an item is on average.
            let chunk = (server.keyspace.memory() / items.max(1)).max(1);
            self.stat("1:chunk_size", chunk);
            self.stat("1:chunks_per_page", ((1 << 20) / chunk).max(1));
            self.stat("1:total_pages", used.div_ceil(1 << 20));
            self.stat("1:total_chunks", items);
            self.stat("1:used_chunks", items);
            self.stat("1:free_chunks", 0);
            self.stat("1:free_chunks_end", 0);
            for name in FIGURES_OF_SLABS {
                self.stat(&format!("1:{name}"), server.memcached.counters.of(name));
            }
        }
        self.stat("active_slabs", u8::from(items > 0));
        self.stat("total_malloced", used);
    }

    fn report_connections(&mut self) {
        let server = self.server;
        let now = server.keyspace.clock().now_ms();
        for (descriptor, what) in server.memcached.listeners.get().into_iter().flatten() {
            self.stat(&format!("{descriptor}:addr"), what);
            let is_datagrams = what.starts_with("udp");
            let state = if is_datagrams { "conn_read" } else { "conn_listening" };
            self.stat(&format!("{descriptor}:state"), state);
            let age_s = (now - server.identity.started) / 1000;
            self.stat(&format!("{descriptor}:secs_since_last_cmd"), age_s);
        }
        let socket = self.server.config.get(MEMCACHED_UNIXSOCKET);
        let socket = format!("unix:{}", String::from_utf8_lossy(&socket));
        let asking = self.session.client.id;
        for client in server.clients.all() {
            let of = |name: &str| format!("{}:{name}", client.descriptor);
            let (peer, local) = match (client.peer, client.local) {
                (Peer::Tcp(peer), Peer::Tcp(local)) => {
                    (format!("tcp:{peer}"), format!("tcp:{local}"))
                }
                _ => ("unix:".to_owned(), socket.clone()),
            };
            let idle_s = (now - client.live.last_active.load(Ordering::Relaxed)).max(0) / 1000;
            self.stat(&of("addr"), peer);
            self.stat(&of("listen_addr"), local);
            let state = match client.id {
                id if id == asking => "conn_parse_cmd",
                _ if client.has_flag(client_flags::WATCHER) => "conn_watch",
                _ if client.has_flag(client_flags::MIDWAY) => "conn_nread",
                _ => "conn_read",
            };
            self.stat(&of("state"), state);
            self.stat(&of("secs_since_last_cmd"), idle_s);
        }
    }
}

/// What is told of the class of slabs as it is of all.
const FIGURES_OF_SLABS: [&str; 8] = [
    "get_hits",
    "cmd_set",
    "delete_hits",
    "incr_hits",
    "decr_hits",
    "cas_hits",
    "cas_badval",
    "touch_hits",
];

/// What cannot be set, as readers of settings know it.
const FIXED_SETTINGS: &[(&str, &str)] = &[
    ("growth_factor", "1.25"),
    ("chunk_size", "48"),
    ("num_threads_per_udp", "0"),
    ("stat_key_prefix", ":"),
    ("reqs_per_event", "20"),
    ("cas_enabled", "yes"),
    ("maxconns_fast", "yes"),
    ("hashpower_init", "0"),
    ("slab_reassign", "no"),
    ("slab_automove", "0"),
    ("slab_automove_ratio", "0.80"),
    ("slab_automove_window", "30"),
    ("slab_chunk_max", "524288"),
    ("lru_crawler", "yes"),
    ("lru_crawler_sleep", "100"),
    ("lru_crawler_tocrawl", "0"),
    ("tail_repair_time", "0"),
    ("hash_algorithm", "siphash"),
    ("lru_maintainer_thread", "no"),
    ("lru_segmented", "no"),
    ("hot_lru_pct", "20"),
    ("warm_lru_pct", "40"),
    ("hot_max_factor", "0.20"),
    ("warm_max_factor", "2.00"),
    ("temp_lru", "no"),
    ("temporary_ttl", "61"),
    ("watcher_logbuf_size", "262144"),
    ("worker_logbuf_size", "65536"),
    ("read_buf_mem_limit", "0"),
    ("track_sizes", "no"),
    ("inline_ascii_response", "no"),
    ("slab_automove_freeratio", "0.010"),
    ("num_napi_ids", "(null)"),
    ("memory_file", "(null)"),
];

/// Bytes of plaintext in one record.
const RECORD: usize = 16 << 10;

/// What both reports say never happens to items: there are no lists by age to move them between.
const NEVER_OF_BOTH: &[&str] = &[
    "evicted_active",
    "crawler_reclaimed",
    "crawler_items_checked",
    "lrutail_reflocked",
    "moves_to_cold",
    "moves_to_warm",
    "moves_within_lru",
    "direct_reclaims",
];

/// The rest of what never happens to items.
const NEVER_OF_ITEMS: &[&str] = &[
    "number_hot",
    "number_warm",
    "number_cold",
    "age_hot",
    "age_warm",
    "tailrepairs",
    "hits_to_hot",
    "hits_to_warm",
    "hits_to_cold",
    "hits_to_temp",
];

/// What never happens here: there are no slabs to move and no background threads of memcached's, a
/// flush leaves nothing behind to be found later, and no pool of buffers can run out.
const NEVER: &[&str] = &[
    "get_flushed",
    "response_obj_oom",
    "response_obj_count",
    "response_obj_bytes",
    "read_buf_count",
    "read_buf_bytes",
    "read_buf_bytes_free",
    "read_buf_oom",
    "reserved_fds",
    "listen_disabled_num",
    "time_in_listen_disabled_us",
    "conn_yields",
    "slab_global_page_pool",
    "lru_bumps_dropped",
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
    "unexpected_napi_ids",
    "round_robin_fallback",
];
