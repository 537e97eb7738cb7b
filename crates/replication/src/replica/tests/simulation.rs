//! A replica and a primary whose link is cut at any byte: in the end both have the same stream.

use base::random::Random;
use proto::{Limits, Progress, RequestParser};

use super::{MARK, command, primary};
use crate::history::{History, KeptRange, PsyncVerdict};
use crate::ids::ReplicationId;
use crate::replica::action::{LoadMode, PrimaryChannel, ReplicaAction};
use crate::replica::link::{LoadOutcome, ReplicaLink};
use crate::replica::settings::ReplicaSettings;

#[test]
fn links_cut_anywhere_lose_nothing_and_double_nothing() {
    let mut sum = Tally::default();
    for seed in 0..10_000 {
        let tally = World::from_seed(seed).run();
        sum.full += tally.full;
        sum.partial += tally.partial;
        sum.renamed += tally.renamed;
    }
    // The histories do go all the ways that there are.
    assert!(sum.full > 10_000 && sum.partial > 10_000 && sum.renamed > 1000, "{sum:?}");
}

#[derive(Debug, Default)]
struct Tally {
    full: u64,
    partial: u64,
    renamed: u64,
}

/// A primary that follows a script of dice.
struct FakePrimary {
    history: History,
    stream: Vec<u8>,
    /// Where units end, and the database selected there.
    ends: Vec<(usize, u32)>,
    /// Bytes before are not kept.
    first: usize,
}

/// A connection, as the primary sees it.
#[derive(Default)]
struct FakeWire {
    heard: Vec<u8>,
    to_replica: Vec<u8>,
    /// How much of the stream is sent, if it flows, or will after an ACK.
    sent: Option<usize>,
    waits_for_ack: bool,
}

struct World {
    random: Random,
    now_ms: u64,
    link: ReplicaLink,
    primary: FakePrimary,
    wire: Option<FakeWire>,
    is_connecting: bool,
    /// The driver's buffer.
    rest: Vec<u8>,
    /// What the replica has.
    taken: Vec<u8>,
    /// The cut whose data is being loaded, and the stream up to there.
    load: Option<Vec<u8>>,
    is_whole: bool,
    tally: Tally,
}

impl FakePrimary {
    fn kept(&self) -> KeptRange {
        KeptRange { first: self.first as u64, end: self.stream.len() as u64 }
    }

    fn database_at(&self, offset: usize) -> u32 {
        let place = self.ends.partition_point(|(end, _)| *end <= offset);
        self.ends[place - 1].1
    }

    fn produce(&mut self, random: &mut Random) {
        let mut database = self.database_at(self.stream.len());
        let mut one = |database: &mut u32| match random.below(4) {
            0 => {
                *database = random.below(16) as u32;
                command(&format!("SELECT {database}"))
            }
            1 => command("REPLCONF GETACK *"),
            _ => command(&format!("set k {}\r\n*1\r\n", random.next_u64())),
        };
        let mut unit = one(&mut database);
        if random.below(3) == 0 {
            unit = [&command("MULTI")[..], &unit, &command("EXEC")].concat();
        }
        self.stream.extend(unit);
        self.ends.push((self.stream.len(), database));
    }

    /// Another server takes over, and has perhaps not all of the stream.
    fn fail_over(&mut self, random: &mut Random) {
        let lost = random.below(3).min(self.ends.len() as u64 - 1);
        self.ends.truncate(self.ends.len() - lost as usize);
        let end = self.ends[self.ends.len() - 1].0;
        self.stream.truncate(end);
        self.first = self.first.min(end);
        self.history.promote(end as u64, fresh(random));
    }
}

fn fresh(random: &mut Random) -> ReplicationId {
    ReplicationId::from_random(std::array::from_fn(|_| random.next_u64() as u8))
}

impl World {
    fn from_seed(seed: u64) -> World {
        let mut random = Random::from_seed(seed);
        let load = [LoadMode::Disk, LoadMode::Flush, LoadMode::Swap][random.below(3) as usize];
        let settings = ReplicaSettings { load, ..ReplicaSettings::default() };
        let history = History::new(fresh(&mut random));
        let mut world = World {
            random,
            now_ms: 0,
            link: ReplicaLink::new(settings),
            primary: FakePrimary { history, stream: Vec::new(), ends: vec![(0, 0)], first: 0 },
            wire: None,
            is_connecting: false,
            rest: Vec::new(),
            taken: Vec::new(),
            load: None,
            is_whole: false,
            tally: Tally::default(),
        };
        world.link.replicaof(primary(), None, None, 0);
        world.act();
        world
    }

    fn run(mut self) -> Tally {
        for _ in 0..120 {
            self.turn();
        }
        for _ in 0..500 {
            if self.taken == self.primary.stream && self.link.position().is_some() {
                self.applied();
                return self.tally;
            }
            self.calm_turn(1000);
        }
        panic!("the replica does not catch up");
    }

    /// One thing happens, good or bad.
    fn turn(&mut self) {
        match self.random.below(40) {
            0 => self.cut(),
            1 => {
                self.primary.fail_over(&mut self.random);
                self.cut();
            }
            2 => {
                let end = self.primary.stream.len() as u64;
                let first = self.random.below(end + 1) as usize;
                self.primary.first = self.primary.first.max(first);
            }
            3..15 => self.primary.produce(&mut self.random),
            15..20 => self.applied(),
            _ => {
                let most = 1 + self.random.below(300) as usize;
                self.calm_turn(most);
            }
        }
    }

    /// What a network without faults does, with at most so many bytes.
    fn calm_turn(&mut self, most: usize) {
        self.now_ms += 300;
        self.link.tick(self.now_ms);
        self.act();
        if std::mem::take(&mut self.is_connecting) {
            self.wire = Some(FakeWire::default());
            self.link.connected(PrimaryChannel::Main, self.now_ms);
            self.act();
        }
        if self.is_whole && self.random.below(2) == 0 {
            self.loaded();
        }
        self.serve();
        let Some(wire) = &mut self.wire else { return };
        let piece = wire.to_replica.len().min(most);
        if piece > 0 && self.link.is_reading(PrimaryChannel::Main) {
            self.rest.extend(wire.to_replica.drain(..piece));
            self.receive();
        }
    }

    fn cut(&mut self) {
        self.is_connecting = false;
        self.rest.clear();
        if self.wire.take().is_some() {
            self.link.closed(PrimaryChannel::Main, self.now_ms);
        } else {
            self.link.connect_failed(PrimaryChannel::Main, "no route", self.now_ms);
        }
        self.act();
    }

    fn loaded(&mut self) {
        self.is_whole = false;
        let stream = self.load.take().expect("a load has begun");
        if self.random.below(8) == 0 {
            self.link.loaded(LoadOutcome::Refused, self.now_ms);
        } else {
            let database = self.primary.database_at(stream.len());
            self.taken = stream;
            self.link.loaded(LoadOutcome::Loaded { database }, self.now_ms);
        }
        self.act();
        if self.wire.is_some() {
            self.receive();
        }
    }

    /// The lanes have got somewhere: seldom to the end.
    fn applied(&mut self) {
        self.link.applied(self.taken.len() as u64, self.now_ms);
        self.act();
    }

    fn receive(&mut self) {
        let done = self.link.received(PrimaryChannel::Main, &self.rest, self.now_ms);
        self.act();
        let done = done.min(self.rest.len());
        self.rest.drain(..done);
    }

    fn act(&mut self) {
        for action in self.link.take_actions() {
            match action {
                ReplicaAction::Connect { .. } => self.is_connecting = true,
                ReplicaAction::Close { .. } => {
                    (self.wire, self.is_connecting) = (None, false);
                    self.rest.clear();
                }
                ReplicaAction::Send { bytes, .. } => {
                    if let Some(wire) = &mut self.wire {
                        wire.heard.extend(bytes);
                    }
                }
                ReplicaAction::BeginLoad(order) => {
                    let cut = order.of.expect("this primary tells").1;
                    self.load = Some(self.primary.stream[..cut as usize].to_vec());
                }
                ReplicaAction::EndOfRdb => self.is_whole = true,
                ReplicaAction::AbortLoad => (self.load, self.is_whole) = (None, false),
                ReplicaAction::Stream { range, end, databases: [database, _], .. } => {
                    let begin = end as usize - range.len();
                    assert_eq!(begin, self.taken.len(), "no byte twice, none missing");
                    assert_eq!(database, self.primary.database_at(begin));
                    self.taken.extend_from_slice(&self.rest[range]);
                }
                ReplicaAction::Follow { .. } => self.tally.renamed += 1,
                ReplicaAction::Hold(_) => panic!("this primary knows of one connection"),
                ReplicaAction::Rdb(_)
                | ReplicaAction::SetHistory(_)
                | ReplicaAction::AwaitSync(_)
                | ReplicaAction::Log { .. } => {}
            }
        }
    }

    /// The primary's side of the connection.
    fn serve(&mut self) {
        let Some(mut wire) = self.wire.take() else { return };
        let heard = std::mem::take(&mut wire.heard);
        let (mut parser, mut rest) = (RequestParser::new(), &heard[..]);
        while !rest.is_empty() {
            let parsed = parser.advance(rest, &Limits::default()).expect("a request");
            let consumed = match parsed {
                Progress::Complete { consumed } => {
                    let args = parser.args(rest);
                    match &args[0] {
                        b"PING" => wire.to_replica.extend(b"+PONG\r\n"),
                        b"PSYNC" => self.psync(&mut wire, &args[1], &args[2]),
                        _ if &args[1] == b"ACK" => {
                            let offset = base::number::parse_u64(&args[2]).expect("a number");
                            assert!(offset <= self.taken.len() as u64, "only what is there");
                            wire.waits_for_ack = false;
                        }
                        _ => wire.to_replica.extend(b"+OK\r\n"),
                    }
                    consumed
                }
                Progress::Empty { consumed } => consumed,
                Progress::Incomplete { .. } => panic!("half a request"),
            };
            parser.reset();
            rest = &rest[consumed..];
        }
        if let Some(sent) = wire.sent.as_mut().filter(|_| !wire.waits_for_ack) {
            wire.to_replica.extend_from_slice(&self.primary.stream[*sent..]);
            *sent = self.primary.stream.len();
        }
        self.wire = Some(wire);
    }

    fn psync(&mut self, wire: &mut FakeWire, id: &[u8], byte: &[u8]) {
        let byte = base::number::parse_i64(byte).expect("a number");
        let out = &mut wire.to_replica;
        out.resize(out.len() + self.random.below(3) as usize, b'\n');
        match self.primary.history.psync_verdict(id, byte, Some(self.primary.kept())) {
            PsyncVerdict::Partial { from } => {
                self.tally.partial += 1;
                out.extend(self.primary.history.continue_line(true));
                wire.sent = Some(from as usize);
            }
            PsyncVerdict::Full(_) => {
                self.tally.full += 1;
                let cut = self.primary.stream.len();
                out.extend(self.primary.history.full_line(cut as u64));
                let len = self.random.below(50) as usize;
                let data = &MARK.repeat(3)[1..][..len.min(38)];
                wire.waits_for_ack = self.random.below(2) == 0;
                out.extend(match wire.waits_for_ack {
                    true => format!("\n$EOF:{MARK}\r\n{data}-{MARK}").into_bytes(),
                    false => format!("${}\r\n{data}", data.len()).into_bytes(),
                });
                wire.sent = Some(cut);
            }
        }
    }
}
