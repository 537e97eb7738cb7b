//! Every command of the table that writes, with arguments drawn at random, by itself, within EXEC
//! and from a script: each server that follows has what was written, or its link has ended with a
//! line, where it cannot hold that.
//!
//! Invariant: no writing command is left out but those that cannot be drawn, which are named; each
//! has written at least once, and each of its option words was accepted at least once.
//!
//! `APUS_DRAWN_WRITES=50` asks for so many pieces of each command, of fresh seeds.

use std::collections::HashSet;
use std::thread;

use base::random::Random;
use proto::value::Value;
use tests::client::line;
use tests::differential::Command;
use tests::generator::{Declared, Drawn, Generator, prologue, shared};
use tests::replica_group::ReplicaGroup;
use tests::{Client, Oracle, Server};

/// Pieces of a command; the replicas are compared behind each.
const PIECES: u64 = 4;
/// Pieces at most, until a command has written and all its option words were accepted.
const PIECES_MAX: u64 = 60;
/// Requests that make the world of a piece.
const WORLD: usize = 100;
/// How pieces are run, in turn. The first is so short that a link may last.
const SHAPES: [Shape; 4] = [
    Shape { requests: 3, way: Way::Plain, relatives: 0 },
    Shape { requests: 12, way: Way::Exec, relatives: 0 },
    Shape { requests: 12, way: Way::Script, relatives: 0 },
    Shape { requests: 12, way: Way::Plain, relatives: 20 },
];
/// Groups that share the commands: most of the time is waited, for data that come anew.
const GROUPS: usize = 4;

/// Commands that write and are not drawn, with the reason.
const ELSEWHERE: &[(&str, &str)] = &[
    ("cluster|flushslot", "only a node of a cluster has slots: cluster_flush_slot"),
    ("cluster|syncitem", "only the source of a move may: cluster_moved_items"),
    ("function|delete", "written out: replication_every_write"),
    ("function|load", "written out: replication_every_write"),
    ("function|restore", "written out: replication_every_write"),
    ("himport|set", "needs what its connection prepared: replication_every_write"),
    ("migrate", "opens connections: migrate_changes"),
    ("xidmprecord", "names an entry that a producer sent: stream_tokens"),
    ("zcollect", "takes out members whose time is over, which no drawn time is by then"),
];

/// Option words that no drawn request can use, with the reason.
const REFUSED: &[(&str, &str)] = &[(
    "geosearchstore BYPOLYGON",
    "the middle that is drawn with it is not allowed: replication_every_write",
)];

/// Stored under the key `payload`, for RESTORE: what every server knows, and what only ours does.
const PAYLOADS: &[&str] = &[
    "SET payload 1",
    "SET payload text",
    "RPUSH payload a b c",
    "SADD payload 1 2 3",
    "SADD payload a b c",
    "HSET payload f v g w",
    "ZADD payload 1 a 2 b",
    "XADD payload 1-1 f v",
    "PFADD payload a b c",
    "HSETEX payload EX 10000000 FIELDS 1 f v",
    "SADDEX payload 10000000 a b",
    "ARSET payload 3 v",
    "XADD payload IDMP p i * f v",
];

#[test]
fn every_writing_command_reaches_every_replica_or_ends_its_link() {
    let (pieces, seed) = match std::env::var("APUS_DRAWN_WRITES") {
        Ok(pieces) => (pieces.parse().expect("a number"), Random::from_entropy().next_u64()),
        Err(_) => (PIECES, 1),
    };
    let table = Table::new();
    let commands: Vec<&Declared> = table.drawn().collect();
    let share = |number: usize| {
        let (table, commands) = (&table, &commands);
        move || {
            let mut run = Run { table, group: ReplicaGroup::start(), pieces, seed };
            let own = commands.iter().skip(number).step_by(GROUPS);
            own.flat_map(|command| run.drive(command)).collect::<Vec<String>>()
        }
    };
    let missing: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = (0..GROUPS).map(|number| scope.spawn(share(number))).collect();
        threads.into_iter().flat_map(|it| it.join().expect("no replica differs")).collect()
    });
    assert!(missing.is_empty(), "has written nothing, or was never accepted: {missing:?}");
}

/// What is drawn from.
struct Table {
    /// All commands that write.
    writing: Vec<Declared>,
    /// What makes a world that all servers can hold, with their options.
    world: Vec<Declared>,
    payloads: Vec<Vec<u8>>,
}

impl Table {
    fn new() -> Self {
        let (ours, oldest) = (Server::start(&[]), Oracle::Redis70.start(&[]));
        let mut client = ours.client();
        let mut writing = shared(&mut client, &mut ours.client());
        writing.retain(|command| writes(&mut client, &command.name));
        assert!(writing.len() > 100, "the table has more that write than {}", writing.len());
        let mut world = shared(&mut client, &mut oldest.client());
        let is_written = |name: &str| writing.iter().any(|command| command.name == name);
        world.retain(|it| it.name == "select" || is_written(&it.name) && it.name != "restore");
        let payloads = PAYLOADS.iter().map(|maker| payload(&mut client, maker)).collect();
        Self { writing, world, payloads }
    }

    fn drawn(&self) -> impl Iterator<Item = &Declared> {
        let is_drawn = |name: &str| !ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == name);
        self.writing.iter().filter(move |command| is_drawn(&command.name))
    }
}

/// Whether a command's block says that it writes.
fn writes(client: &mut Client, name: &str) -> bool {
    let Value::Array(entries) = client.call(&["COMMAND", "INFO", name]) else { return false };
    let Some(Value::Array(fields)) = entries.first() else { return false };
    let Value::Array(flags) = &fields[2] else { panic!("{fields:?}") };
    flags.iter().any(|flag| flag.as_bytes() == Some(b"write"))
}

fn payload(client: &mut Client, maker: &str) -> Vec<u8> {
    client.call(&["DEL", "payload"]);
    client.call(&maker.split(' ').collect::<Vec<_>>());
    let payload = client.call(&["DUMP", "payload"]);
    payload.as_bytes().unwrap_or_else(|| panic!("{maker}")).to_vec()
}

/// What a piece is.
#[derive(Clone, Copy)]
struct Shape {
    /// How many requests of the command.
    requests: usize,
    way: Way,
    /// How many of commands of its family before them, with options that not all servers know.
    relatives: usize,
}

/// How the requests of a piece are run.
#[derive(Clone, Copy, Debug)]
enum Way {
    Plain,
    Exec,
    Script,
}

/// A share of the commands, on a group of its own.
struct Run<'a> {
    table: &'a Table,
    group: ReplicaGroup,
    pieces: u64,
    seed: u64,
}

impl Run<'_> {
    /// Draws pieces of one command; what it never wrote, and the option words never accepted.
    fn drive(&mut self, command: &Declared) -> Vec<String> {
        let mut has_written = false;
        let mut accepted = HashSet::new();
        self.group.gather();
        for piece in 0..PIECES_MAX.max(self.pieces) {
            if piece >= self.pieces && missing(command, has_written, &accepted).is_empty() {
                break;
            }
            let shape = SHAPES[piece as usize % SHAPES.len()];
            let seed = self.seed.wrapping_add(piece);
            let (world, own) = self.draw(command, seed, shape);
            has_written |= self.run(command, (seed, shape.way), world, &own, &mut accepted);
        }
        missing(command, has_written, &accepted)
    }

    /// What makes a world, and requests of one command for it.
    fn draw(&self, command: &Declared, seed: u64, shape: Shape) -> (Vec<Command>, Vec<Drawn>) {
        let Table { writing, world, payloads } = self.table;
        let mut generator = Generator::new(seed, world, payloads);
        let mut begin = prologue(seed as usize, true);
        begin.extend((0..WORLD).map(|_| reads_anew(generator.draw()).step.command));
        begin.push(words(&["SELECT", "0"]));
        if command.group == "stream" {
            begin.extend(pending_entries());
        }
        let relatives: Vec<&Declared> =
            writing.iter().filter(|other| other.group == command.group).collect();
        let mut random = Random::from_seed(seed);
        for _ in 0..shape.relatives {
            let other = relatives[random.below(relatives.len() as u64) as usize];
            begin.push(reads_anew(generator.draw_of(other)).step.command);
        }
        let own = (0..shape.requests).map(|_| reads_anew(generator.draw_of(command))).collect();
        (begin, own)
    }

    /// Runs a piece and compares; whether its own requests have written anything.
    fn run(
        &mut self,
        command: &Declared,
        (seed, way): (u64, Way),
        world: Vec<Command>,
        own: &[Drawn],
        accepted: &mut HashSet<usize>,
    ) -> bool {
        self.group.clear();
        let mut client = self.group.primary.client();
        client.pipeline(&world);
        let before = self.group.offset();
        let (own, steps) = in_way(&mut client, own, way);
        let replies = answers(client.pipeline(&steps), way);
        for (drawn, reply) in own.iter().zip(&replies) {
            if !matches!(reply, Value::Error(_)) {
                accepted.extend(&drawn.tokens);
            }
        }
        let has_written = self.group.offset() != before;
        if let Some(difference) = self.group.difference() {
            let steps = [world, steps].concat();
            let told = self.shrink(steps, difference);
            panic!("{}, seed {seed}, {way:?}\n{told}", command.name);
        }
        has_written
    }

    /// The difference behind as few requests as can be found.
    fn shrink(&mut self, mut steps: Vec<Command>, mut difference: String) -> String {
        let mut piece = steps.len() / 2;
        while piece > 0 {
            let mut end = steps.len();
            while end > 0 {
                let begin = end.saturating_sub(piece);
                let mut fewer = steps.clone();
                fewer.drain(begin..end);
                self.group.gather();
                self.group.primary.client().pipeline(&fewer);
                if let Some(again) = self.group.difference() {
                    (steps, difference) = (fewer, again);
                }
                end = begin;
            }
            piece /= 2;
        }
        let lines: Vec<String> = steps.iter().map(|it| line(it)).collect();
        format!("{}\n{difference}", lines.join("\n"))
    }
}

/// The command if it has written nothing, and its option words that were never accepted.
fn missing(command: &Declared, has_written: bool, accepted: &HashSet<usize>) -> Vec<String> {
    let words = command.tokens.iter().enumerate();
    let words = words.filter(|(number, _)| !accepted.contains(number));
    let words = words.map(|(_, word)| format!("{} {word}", command.name));
    let idle = (!has_written).then(|| command.name.clone());
    let is_known = |what: &String| !REFUSED.iter().any(|(refused, _)| refused == what);
    idle.into_iter().chain(words).filter(is_known).collect()
}

/// Requests as they are run, and those of them that stand in EXEC or are all there are.
fn in_way<'a>(client: &mut Client, own: &'a [Drawn], way: Way) -> (Vec<&'a Drawn>, Vec<Command>) {
    let request = |drawn: &&Drawn| drawn.step.command.clone();
    let all: Vec<&Drawn> = own.iter().collect();
    match way {
        Way::Plain => {
            let steps = all.iter().map(request).collect();
            (all, steps)
        }
        Way::Script => {
            let head = || words(&["EVAL", "return redis.call(unpack(ARGV))", "0"]);
            let steps = all.iter().map(|drawn| [head(), request(drawn)].concat()).collect();
            (all, steps)
        }
        Way::Exec => {
            // One that is not queued would have all be given up.
            client.call(&["MULTI"]);
            let is_queued =
                |drawn: &&Drawn| !matches!(client.call(&drawn.step.command), Value::Error(_));
            let queued: Vec<&Drawn> = own.iter().filter(is_queued).collect();
            client.call(&["DISCARD"]);
            let requests = queued.iter().map(request);
            let steps = [words(&["MULTI"])].into_iter().chain(requests);
            let steps = steps.chain([words(&["EXEC"])]).collect();
            (queued, steps)
        }
    }
}

/// A stream whose entries a consumer was given, with IDs as they are drawn.
fn pending_entries() -> impl Iterator<Item = Command> {
    let ids = (1..=9).flat_map(|time| (0..3).map(move |number| format!("{time}-{number}")));
    let entries = ids.map(|id| words(&["XADD", "x:2", &id, "f", "v"]));
    let group = words(&["XGROUP", "CREATE", "x:2", "g", "0"]);
    let given = ["XREADGROUP", "GROUP", "g", "alice", "COUNT", "20", "STREAMS", "x:2", ">"];
    let given = [group, words(&given)];
    [words(&["DEL", "x:2"])].into_iter().chain(entries).chain(given)
}

/// How often an entry was read again is told to no replica, by real servers neither: XREADGROUP
/// reads what is new.
fn reads_anew(mut drawn: Drawn) -> Drawn {
    let command = &mut drawn.step.command;
    let streams = command.iter().position(|word| word.eq_ignore_ascii_case(b"STREAMS"));
    if command[0].eq_ignore_ascii_case(b"XREADGROUP")
        && let Some(at) = streams
    {
        let ids = at + 1 + (command.len() - at - 1) / 2;
        command[ids..].iter_mut().for_each(|id| *id = b">".to_vec());
    }
    drawn
}

/// The replies of a piece's own requests.
fn answers(mut replies: Vec<Value>, way: Way) -> Vec<Value> {
    match (way, replies.pop()) {
        (Way::Exec, Some(Value::Array(replies))) => replies,
        (Way::Exec, _) => Vec::new(),
        (_, last) => replies.into_iter().chain(last).collect(),
    }
}

fn words(words: &[&str]) -> Command {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}
