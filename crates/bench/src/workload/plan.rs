//! What all streams of a run share: the kinds of request with their prepared bytes, and the
//! values. Invariant: a plan has at least one kind, and each has at least one request in turn.

use std::sync::Arc;

use base::Random;

use super::ReplyKind;
use super::distribution::{Gaussian, Zipf, below_inclusive};
use super::keys::{Cursor, KeyRange, slot};
use super::memcached;
use super::template::{Segment, Template};
use super::values::ValueSource;
use crate::options::{CustomCommand, KeyPattern, Keys, Load, Mix, Options, Protocol, Until, Wait};

/// The seed of every run without `--randomize`.
pub(super) const SEED: u64 = 0x6170_7573_2d62_656e;

/// The sections of a run without `--command`.
const SETS: usize = 0;
const GETS: usize = 1;
const WAITS: usize = 2;

/// One kind of request.
#[derive(Debug)]
pub(super) struct RequestKind {
    /// Its section: an index into the names.
    pub(super) command: usize,
    pub(super) reply: ReplyKind,
    /// Keys of it in a row, before the next kind.
    pub(super) in_turn: u32,
    pub(super) pattern: KeyPattern,
    pub(super) template: Template,
    /// Keys per request: 1 unless it is an MGET.
    pub(super) batch: u32,
    pub(super) is_multi_get: bool,
    /// Whether `-n allkeys` is over when this kind has gone through its keys (and others like it).
    pub(super) ends_stream: bool,
    /// The slot of a request without a `__key__`: that of its second word, where most commands
    /// have their key. 0 where slots are not wanted.
    pub(super) fixed_slot: u16,
    /// Whether `--wait-ratio` counts it.
    pub(super) is_set: bool,
}

/// `WAIT` requests.
#[derive(Debug)]
pub(super) struct WaitPlan {
    pub(super) command: usize,
    pub(super) sets: u32,
    pub(super) waits: u32,
    pub(super) template: Template,
    replicas: (u32, u32),
    timeout: Gaussian,
}

/// What all streams share.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) kinds: Vec<RequestKind>,
    pub(super) values: Arc<ValueSource>,
    pub(super) wait: Option<WaitPlan>,
    /// Whether slots are wanted.
    pub(super) cluster: bool,
    keys: Keys,
    connections: u64,
    seed: u64,
    distinct_seeds: bool,
    expiry: (u32, u32),
    all_keys: bool,
}

impl Plan {
    /// The plan of the load itself, and the names of its sections.
    pub(super) fn load(options: &Options, seed: u64) -> (Vec<String>, Self) {
        let load = &options.load;
        let values = ValueSource::new(&load.values, &load.keys, load.verify, seed);
        let (names, kinds) = match &load.mix {
            Mix::Ratio { set, get } => {
                let names = ["Sets", "Gets", "Waits"].map(String::from).into();
                (names, ratio_kinds(options, &values, *set, *get))
            }
            Mix::Commands(commands) => custom_kinds(options, commands, &values),
        };
        let all_keys = options.until == Until::AllKeys;
        (names, Self::of_kinds(options, kinds, Arc::new(values), all_keys, seed))
    }

    /// The plan of the reads that verify what `load` has written.
    pub(super) fn verification(options: &Options, load: &Self) -> Self {
        let get = RequestKind {
            pattern: KeyPattern::Parallel,
            ends_stream: true,
            ..single_get_kind(options, &load.values, 1)
        };
        Self::of_kinds(options, vec![get], Arc::clone(&load.values), true, load.seed)
    }

    fn of_kinds(
        options: &Options,
        kinds: Vec<RequestKind>,
        values: Arc<ValueSource>,
        all_keys: bool,
        seed: u64,
    ) -> Self {
        let load = &options.load;
        Self {
            wait: load.wait.as_ref().map(WaitPlan::new),
            cluster: options.cluster,
            keys: load.keys.clone(),
            connections: u64::from(options.threads) * u64::from(options.clients),
            seed,
            distinct_seeds: load.distinct_client_seed,
            expiry: load.values.expiry.unwrap_or_default(),
            all_keys,
            kinds,
            values,
        }
    }

    /// The seed of one connection: the same for all of them unless asked otherwise.
    pub(super) fn seed_of(&self, connection: u64) -> u64 {
        if self.distinct_seeds {
            self.seed.wrapping_add(connection).wrapping_add(1)
        } else {
            self.seed
        }
    }

    /// How a connection walks the keys.
    pub(super) fn cursor(&self, pattern: KeyPattern, connection: u64) -> Cursor {
        let keys = &self.keys;
        let range = KeyRange::new(keys.minimum, keys.maximum);
        match pattern {
            KeyPattern::Random => Cursor::Uniform(range),
            KeyPattern::Sequential => Cursor::walk(range),
            KeyPattern::Parallel => Cursor::walk(range.part(connection, self.connections)),
            KeyPattern::Gaussian => {
                Cursor::Gaussian(Gaussian::new(range, keys.median, keys.stddev))
            }
            KeyPattern::Zipf => Cursor::Zipf(Zipf::new(range, keys.zipf_exponent)),
        }
    }

    /// How many keys a connection may use for this kind of request.
    pub(super) fn key_budget(&self, kind: &RequestKind, connection: u64) -> u64 {
        if !self.all_keys || !kind.ends_stream {
            return u64::MAX;
        }
        let range = KeyRange::new(self.keys.minimum, self.keys.maximum);
        match kind.pattern {
            KeyPattern::Parallel => range.part(connection, self.connections).len(),
            _ => range.len(),
        }
    }

    /// A time to live in seconds.
    pub(super) fn draw_expiry(&self, random: &mut Random) -> u64 {
        below_inclusive(random, self.expiry)
    }
}

impl WaitPlan {
    fn new(wait: &Wait) -> Self {
        let words = [
            vec![Segment::Literal(b"WAIT".to_vec())],
            vec![Segment::Number(0)],
            vec![Segment::Number(1)],
        ];
        let (shortest, longest) = wait.timeout_ms;
        let range = KeyRange::new(u64::from(shortest), u64::from(longest));
        Self {
            command: WAITS,
            sets: wait.ratio.0,
            waits: wait.ratio.1,
            template: Template::compile(&words),
            replicas: wait.replicas,
            timeout: Gaussian::new(range, None, None),
        }
    }

    /// Replicas, and milliseconds: normally distributed around the middle of their range.
    pub(super) fn draw(&self, random: &mut Random) -> [u64; 2] {
        [below_inclusive(random, self.replicas), self.timeout.clone().next(random)]
    }
}

/// The kinds of a run without `--command`: those whose share is not 0.
fn ratio_kinds(options: &Options, values: &ValueSource, set: u32, get: u32) -> Vec<RequestKind> {
    let mut kinds = Vec::new();
    if set > 0 {
        kinds.push(set_kind(options, values, set));
    }
    if get > 0 {
        kinds.push(RequestKind { ends_stream: set == 0, ..get_kind(options, values, get) });
    }
    kinds
}

/// Whether requests are RESP arrays.
fn is_redis(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Redis | Protocol::Resp2 | Protocol::Resp3)
}

fn set_kind(options: &Options, values: &ValueSource, in_turn: u32) -> RequestKind {
    let (load, protocol) = (&options.load, options.protocol);
    let template = match is_redis(protocol) {
        true => set_template(load, values),
        false => memcached::set(protocol, load, values),
    };
    RequestKind {
        command: SETS,
        reply: ReplyKind::Plain,
        in_turn,
        pattern: load.keys.patterns.0,
        template,
        batch: 1,
        is_multi_get: false,
        ends_stream: true,
        fixed_slot: 0,
        is_set: true,
    }
}

/// SET; SETEX with `--expiry-range`; SETRANGE with `--data-offset`.
fn set_template(load: &Load, values: &ValueSource) -> Template {
    let literal = |text: &str| vec![Segment::Literal(text.as_bytes().to_vec())];
    let key = vec![Segment::Literal(load.keys.prefix.clone()), Segment::Key];
    let data = vec![values.segment()];
    let words = if load.values.offset > 0 {
        vec![literal("SETRANGE"), key, literal(&load.values.offset.to_string()), data]
    } else if load.values.expiry.is_some() {
        vec![literal("SETEX"), key, vec![Segment::Number(0)], data]
    } else {
        vec![literal("SET"), key, data]
    };
    Template::compile(&words)
}

/// GET, or MGET with `--multi-key-get`.
fn get_kind(options: &Options, values: &ValueSource, in_turn: u32) -> RequestKind {
    let single = single_get_kind(options, values, in_turn);
    let load = &options.load;
    if load.multi_key_get == 0 {
        return single;
    }
    RequestKind {
        reply: ReplyKind::MultiRead,
        template: Template::multi_get(&load.keys.prefix),
        batch: load.multi_key_get,
        is_multi_get: true,
        ..single
    }
}

fn single_get_kind(options: &Options, values: &ValueSource, in_turn: u32) -> RequestKind {
    let (load, protocol) = (&options.load, options.protocol);
    let template = match is_redis(protocol) {
        true => get_template(load, values),
        false => memcached::get(protocol, load),
    };
    RequestKind {
        command: GETS,
        reply: if load.values.offset > 0 { ReplyKind::ReadPart } else { ReplyKind::Read },
        in_turn,
        pattern: load.keys.patterns.1,
        template,
        batch: 1,
        is_multi_get: false,
        ends_stream: false,
        fixed_slot: 0,
        is_set: false,
    }
}

/// GET; GETRANGE with `--data-offset`.
fn get_template(load: &Load, values: &ValueSource) -> Template {
    let literal = |text: &str| vec![Segment::Literal(text.as_bytes().to_vec())];
    let key = vec![Segment::Literal(load.keys.prefix.clone()), Segment::Key];
    let offset = u64::from(load.values.offset);
    let words = if offset > 0 {
        // Up to the longest value: the server cuts what lies beyond the end.
        let last = offset + values.len_max() as u64 - 1;
        vec![literal("GETRANGE"), key, literal(&offset.to_string()), literal(&last.to_string())]
    } else {
        vec![literal("GET"), key]
    };
    Template::compile(&words)
}

/// The kinds of `--command`, and their sections: one for each different verb.
fn custom_kinds(
    options: &Options,
    commands: &[CustomCommand],
    values: &ValueSource,
) -> (Vec<String>, Vec<RequestKind>) {
    let mut names: Vec<String> = Vec::new();
    let mut kinds = Vec::new();
    for command in commands {
        let name = section_name(&command.words);
        let index = names.iter().position(|known| *known == name).unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        });
        let prefix = &options.load.keys.prefix;
        let words = command.words.iter().map(|word| Segment::split(word, prefix, values));
        let words: Vec<Vec<Segment>> = words.collect();
        let second = command.words.get(1).filter(|_| options.cluster);
        kinds.push(RequestKind {
            command: index,
            reply: reply_kind(&command.words),
            in_turn: command.ratio,
            pattern: command.key_pattern,
            template: Template::compile(&words),
            batch: 1,
            is_multi_get: false,
            ends_stream: true,
            fixed_slot: second.map_or(0, |word| slot(word)),
            is_set: false,
        });
    }
    // A request without a key does not go through the keys, unless none does.
    if kinds.iter().any(|kind| kind.template.has_key()) {
        for kind in &mut kinds {
            kind.ends_stream = kind.template.has_key();
        }
    }
    (names, kinds)
}

/// `HSET` becomes `Hsets`.
fn section_name(words: &[Vec<u8>]) -> String {
    let mut name = words.first().cloned().unwrap_or_default().to_ascii_lowercase();
    if let Some(first) = name.first_mut() {
        first.make_ascii_uppercase();
    }
    String::from_utf8_lossy(&name).into_owned() + "s"
}

/// How the reply to a command counts: reads of one value, and of several.
fn reply_kind(words: &[Vec<u8>]) -> ReplyKind {
    let verb = words.first().map_or_else(Vec::new, |word| word.to_ascii_uppercase());
    match verb.as_slice() {
        b"GET" | b"GETEX" | b"GETDEL" | b"HGET" | b"LINDEX" | b"ZSCORE" => ReplyKind::Read,
        b"GETRANGE" => ReplyKind::ReadPart,
        b"MGET" | b"HMGET" => ReplyKind::MultiRead,
        _ => ReplyKind::Plain,
    }
}
