//! memcached's commands of administration.
//!
//! Invariant: what may wait is done on another thread.

use config::ShutdownFlags;
use config::settings::{MEMCACHED_SHUTDOWN, MEMCACHED_TLS, SAVE};
use engine::execute::offload::ControlCall;
use engine::session::Step;
use keyspace::Refusal;
use proto::memcached::{Administration, Failure, Form, Response, Words};
use proto::{Reply, Resp};

use super::MemcachedServer;
use super::command_line::MEGABYTES_MIN;
use super::command_map::{self, CommandKind};
use super::{RequestContext, crawler, tuning};

const MEGABYTE: u64 = 1 << 20;

/// Limits in megabytes beyond which memcached takes the number for bytes, and below which it has
/// no room for its slabs.
const MEGABYTES_MAX: u64 = 1_000_000_000;

impl RequestContext<'_> {
    /// Does what a command of administration says.
    pub(super) fn administer(&mut self, what: Administration, words: Words<'_>) -> Step {
        let words: Vec<&[u8]> = words.collect();
        let answer = match what {
            Administration::CacheMemoryLimit => return self.limit_memory(&words),
            Administration::Shutdown => return self.shut_down(&words),
            Administration::LruCrawler => match words[..] {
                [b"metadump", which] => return self.dump(which, crawler::Form::Described),
                [b"mgdump", which] => return self.dump(which, crawler::Form::Named),
                _ => tuning::lru_crawler(&words),
            },
            Administration::Lru => tuning::lru(&words),
            Administration::Slabs => tuning::slabs(&words),
            Administration::Watch => return self.watch(&words),
            Administration::ExternalStore => tuning::external_store(&words),
            Administration::RefreshCertificates if self.server.config.get(MEMCACHED_TLS) => {
                return self.refresh_certificates();
            }
            Administration::RefreshCertificates => Response::Line(b"Error TLS not enabled"),
        };
        self.respond(answer)
    }

    /// `cache_memlimit`: `maxmemory` by another name.
    fn limit_memory(&mut self, words: &[&[u8]]) -> Step {
        let ([megabytes] | [megabytes, _]) = words else { return self.fail(Failure::Unknown) };
        let megabytes = base::number::parse_i64(megabytes).and_then(|it| u64::try_from(it).ok());
        let line: &[u8] = match megabytes {
            None => return self.fail(Failure::Unknown),
            Some(0..MEGABYTES_MIN) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            Some(MEGABYTES_MAX..) => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            Some(megabytes) => {
                let bytes = (megabytes * MEGABYTE).to_string();
                let is_local = self.session.is_local;
                let is_quiet = matches!(self.request.form, Form::Text { quiet: true, .. });
                return self.offload(move |server, reply| {
                    let pairs: [&[u8]; 2] = [b"maxmemory", bytes.as_bytes()];
                    let line: &[u8] = match server.configure(&pairs, is_local) {
                        Ok(()) => b"OK\r\n",
                        Err(_) => b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
                    };
                    if !is_quiet {
                        reply.raw(line);
                    }
                });
            }
        };
        self.respond(Response::Line(line))
    }

    /// `refresh_certs`: what the directives name is loaded anew.
    fn refresh_certificates(&self) -> Step {
        self.offload(|server, reply| match server.refresh_certificates() {
            Ok(()) => reply.raw(b"OK\r\n"),
            // The error is a line of its own kind, as memcached has it.
            Err(why) => {
                reply.raw(format!("Error {}\r\n", why.replace(['\r', '\n'], " ")).as_bytes());
            }
        })
    }

    /// `shutdown [graceful]`, where the operator has allowed it.
    fn shut_down(&mut self, words: &[&[u8]]) -> Step {
        let server = self.server;
        if !server.config.get(MEMCACHED_SHUTDOWN) {
            return self.respond(Response::Line(b"ERROR: shutdown not enabled"));
        }
        if !matches!(words, [] | [b"graceful"]) {
            return self.respond(Response::Line(b"CLIENT_ERROR invalid shutdown mode"));
        }
        // An end that succeeds is answered by the end of the connection.
        self.offload(move |server, reply| {
            let save = !server.config.get(SAVE).is_empty();
            let how = ShutdownFlags { save, nosave: !save, ..ShutdownFlags::default() };
            if server.shutdown.execute(server, how).is_err() {
                reply.raw(b"SERVER_ERROR the data could not be saved\r\n");
            }
        })
    }

    /// Leaves work to a thread where it may wait; its answer goes out as it is.
    pub(super) fn offload(
        &self,
        work: impl FnOnce(&'static MemcachedServer, &mut Reply<'_>) + Send + 'static,
    ) -> Step {
        let server = self.server;
        self.on_a_lane(move |_, reply| work(server, reply))
    }

    /// As `offload`, for what has transactions of its own.
    pub(super) fn on_a_lane(
        &self,
        work: impl FnOnce(usize, &mut Reply<'_>) + Send + 'static,
    ) -> Step {
        let (server, request) = (self.server, self.request);
        let entry = server.memcached.commands(server).entry(CommandKind::of(&request.operation));
        let entry = entry.expect("what is not there is not admitted");
        let args = command_map::words(request);
        let call = ControlCall { server, entry, args, resp: Resp::Two, ceiling: usize::MAX };
        let work = move |lane, _: proto::Args<'_>, reply: &mut Reply<'_>| -> Result<(), Refusal> {
            work(lane, reply);
            Ok(())
        };
        Step::offload(server.threads.background.run_with_locks(call, Box::new(work)))
    }
}
