//! memcached's commands of administration.
//!
//! What steers its slabs and its background threads has nothing to act on here, and is answered as
//! memcached answers it. Invariant: what may wait is done on another thread.

use proto::memcached::{Administration, Failure, Response, Words};
use proto::{OwnedArgs, Reply, Resp};

use super::Turn;
use crate::config::ShutdownFlags;
use crate::config::settings::{MEMCACHED_SHUTDOWN, SAVE};
use crate::effects;
use crate::execute::Step;
use crate::heavy::Call;
use crate::server::Server;
use crate::session::Stage;
use keyspace::Refusal;

const MEGABYTE: u64 = 1 << 20;

/// Limits in megabytes beyond which memcached takes the number for bytes, and below which it has
/// no room for its slabs.
const MEGABYTES_MAX: u64 = 1_000_000_000;
const MEGABYTES_MIN: u64 = 8;

/// There are no slabs to move.
const NO_SPARE_PAGES: &[u8] = b"NOSPARE source class has no spare pages";

impl Turn<'_> {
    /// Does what a command of administration says.
    pub(super) fn administer(&mut self, what: Administration, words: Words<'_>) -> Step {
        let words: Vec<&[u8]> = words.filter(|word| *word != b"noreply").collect();
        let answer = match what {
            Administration::CacheMemoryLimit => return self.limit_memory(&words),
            Administration::Shutdown => return self.shut_down(&words),
            Administration::LruCrawler => match words[..] {
                [b"metadump", which] => return self.dump(which, super::crawler::Form::Described),
                [b"mgdump", which] => return self.dump(which, super::crawler::Form::Named),
                _ => crawl(&words),
            },
            Administration::Lru => tune_lru(&words),
            Administration::Slabs => match words[..] {
                [b"reassign", _, _] => return self.say(Response::Line(NO_SPARE_PAGES)),
                [b"automove", b"0" | b"1" | b"2"] => Ok(()),
                _ => Err(Failure::Unknown),
            },
            Administration::Watch => return self.watch(&words),
            Administration::ExternalStore => Err(Failure::Unknown),
            Administration::RefreshCertificates => {
                return self.say(Response::Line(b"Error TLS not enabled"));
            }
        };
        match answer {
            Ok(()) => self.say(Response::Ok),
            Err(failure) => self.fail(failure),
        }
    }

    /// `cache_memlimit`: `maxmemory` by another name.
    fn limit_memory(&mut self, words: &[&[u8]]) -> Step {
        let [megabytes, ..] = words else { return self.fail(Failure::Unknown) };
        let megabytes = base::number::parse_i64(megabytes).and_then(|it| u64::try_from(it).ok());
        let line: &[u8] = match megabytes {
            None => return self.fail(Failure::Unknown),
            Some(0..MEGABYTES_MIN) => b"MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m",
            Some(MEGABYTES_MAX..) => b"MEMLIMIT_ADJUST_FAILED input value is megabytes not bytes",
            Some(megabytes) => {
                let bytes = (megabytes * MEGABYTE).to_string();
                let is_local = self.session.is_local;
                return self.elsewhere(move |server, reply| {
                    let pairs: [&[u8]; 2] = [b"maxmemory", bytes.as_bytes()];
                    reply.raw(match effects::change_config(server, &pairs, is_local) {
                        Ok(()) => b"OK\r\n",
                        Err(_) => b"MEMLIMIT_ADJUST_FAILED out of bounds or unable to adjust\r\n",
                    });
                });
            }
        };
        self.say(Response::Line(line))
    }

    /// `shutdown [graceful]`, where the operator has allowed it.
    fn shut_down(&mut self, words: &[&[u8]]) -> Step {
        let server = self.worker.server;
        if !server.config.get(MEMCACHED_SHUTDOWN) {
            return self.say(Response::Line(b"ERROR: shutdown not enabled"));
        }
        if !matches!(words, [] | [b"graceful"]) {
            return self.say(Response::Line(b"CLIENT_ERROR invalid shutdown mode"));
        }
        // Where it succeeds, the end of the connection is the answer.
        self.elsewhere(move |server, reply| {
            let save = !server.config.get(SAVE).is_empty();
            let how = ShutdownFlags { save, nosave: !save, now: false, force: false };
            if server.shutdown.carry_out(server, how).is_err() {
                reply.raw(b"SERVER_ERROR the data could not be saved\r\n");
            }
        })
    }

    /// Leaves work to a thread where it may wait; its answer goes out as it is.
    pub(super) fn elsewhere(
        &self,
        work: impl FnOnce(&'static Server, &mut Reply<'_>) + Send + 'static,
    ) -> Step {
        let server = self.worker.server;
        self.on_a_lane(move |_, reply| work(server, reply))
    }

    /// As `elsewhere`, for what has transactions of its own.
    pub(super) fn on_a_lane(
        &self,
        work: impl FnOnce(usize, &mut Reply<'_>) + Send + 'static,
    ) -> Step {
        let server = self.worker.server;
        // What the books say of it is that somebody administered.
        let entry = server.table.entries().iter().find(|entry| entry.spec.name == "CONFIG");
        let entry = entry.or_else(|| server.table.entries().first()).expect("there are commands");
        let call = Call { server, entry, args: OwnedArgs::default(), resp: Resp::Two };
        let work = move |lane, _: proto::Args<'_>, reply: &mut Reply<'_>| -> Result<(), Refusal> {
            work(lane, reply);
            Ok(())
        };
        Step::Wait(Stage::Elsewhere(server.heavy.run(call, Box::new(work))))
    }
}

type Answer = Result<(), Failure<'static>>;

/// `lru_crawler`: expired items are always looked for here.
fn crawl(words: &[&[u8]]) -> Answer {
    match words {
        [b"enable" | b"disable"] => Ok(()),
        [b"crawl", _] => Ok(()),
        [b"sleep" | b"tocrawl", number] => match base::number::parse_i64(number) {
            Some(0..) => Ok(()),
            _ => Err(Failure::BadFormat),
        },
        _ => Err(Failure::Unknown),
    }
}

/// `lru`: what leaves first is `maxmemory-policy`'s to say.
fn tune_lru(words: &[&[u8]]) -> Answer {
    match words {
        [b"tune", _, _, _, _] | [b"mode", b"flat" | b"segmented"] | [b"temp_ttl", _] => Ok(()),
        _ => Err(Failure::Unknown),
    }
}
