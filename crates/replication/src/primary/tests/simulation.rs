//! A primary with a driver, a stream, and fake replicas that come, go, are slow, silent or late;
//! in the end all of them have all of the stream.
//!
//! Invariant: all there is comes from the seed.

use std::collections::BTreeMap;

use base::Random;

use super::peer::{Expects, Kind, Peer, snapshot_at};
use super::{PRIMARY, announced};
use crate::backlog::{Backlog, Place, SIZE_MIN};
use crate::history::History;
use crate::ids::ReplicationId;
use crate::primary::{
    CloseWhen, Primary, PrimaryAction, PrimarySettings, ReplconfReply, ReplconfState, ReplicaId,
    Role, RoundId, SnapshotTarget, StreamView, SyncKind, SyncRequest, SyncVerdict,
};

/// What must have happened to somebody: parts of lines of the log.
const EVENTS: [&str; 15] = [
    "(rdb-channel)",
    "partial resync",
    "needs a full resync: nothing",
    "of another history",
    "beyond where",
    "not in the backlog any more",
    "Replication backlog created",
    "Backlog freed",
    "target: replicas sockets",
    "target: disk",
    "Current BGSAVE has socket target",
    "Waiting for end of BGSAVE",
    "Can't attach",
    "SYNC failed",
    "(streaming sync)",
];

/// The driver's end of a link.
#[derive(Default)]
struct Link {
    peer: usize,
    place: Option<Place>,
    streams: bool,
    /// On its way to the peer.
    out: Vec<u8>,
    /// Whether the engine is told when all of that is gone.
    noted: bool,
    closes: bool,
}

/// A snapshot that is being made.
struct Making {
    round: RoundId,
    target: SnapshotTarget,
    replicas: Vec<ReplicaId>,
    cut: Option<u64>,
    written: usize,
}

struct World {
    random: Random,
    primary: Primary,
    history: History,
    backlog: Option<Backlog>,
    stream: Vec<u8>,
    links: BTreeMap<ReplicaId, Link>,
    peers: Vec<Peer>,
    making: Option<Making>,
    attached: u64,
    next_link: u64,
    now_ms: u64,
    /// From here on nothing fails any more.
    is_calm: bool,
    /// How often each of the events happened.
    happened: [u64; EVENTS.len()],
}

impl World {
    fn new(seed: u64) -> World {
        let mut random = Random::from_seed(seed);
        let settings = PrimarySettings {
            timeout_ms: 20_000,
            backlog_ttl_ms: 10_000 * random.below(2),
            diskless: random.below(4) != 0,
            diskless_delay_ms: 1000 * random.below(6),
            rdb_channel: random.below(2) == 0,
            diskless_replicas_max: random.below(3) as usize,
            replicas_min: 1,
            ..PrimarySettings::default()
        };
        let mut drawn = Random::from_seed(seed ^ 1);
        let random_ids = Box::new(move || std::array::from_fn(|_| drawn.next_u64() as u8));
        let mut peers: Vec<Peer> =
            (0..=random.below(4)).map(|_| random_peer(&mut random)).collect();
        for main in 0..peers.len() {
            peers.push(Peer::new(Kind::Channel(main), "eof rdb-only=1".to_owned()));
        }
        World {
            primary: Primary::new(settings, random_ids, 0),
            history: History::new(ReplicationId::from_random([9; 20])),
            backlog: None,
            stream: b"before".to_vec(),
            links: BTreeMap::new(),
            peers,
            making: None,
            attached: 0,
            next_link: 1,
            now_ms: 0,
            is_calm: false,
            happened: [0; EVENTS.len()],
            random,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn step(&mut self) {
        match self.below(24) {
            0..6 => self.pass_time(),
            6..9 => {
                let len = if self.below(60) == 0 { 20_000 } else { self.below(60) };
                let byte = self.below(256) as u8;
                self.append(&vec![byte; len]);
            }
            9..12 => {
                let peer = self.below(self.peers.len());
                self.connect(peer);
            }
            12 => {
                let peer = self.below(self.peers.len());
                self.hang_up(peer);
            }
            13 if self.below(4) == 0 => {
                let fresh = ReplicationId::from_random([self.below(256) as u8; 20]);
                self.history.promote(self.stream.len() as u64, fresh);
                self.primary.drop_all(self.now_ms);
            }
            14 if self.below(4) == 0 => {
                if let Some(making) = self.making.take() {
                    self.primary.snapshot_failed(making.round, self.now_ms);
                }
            }
            13..17 => self.make(),
            17..20 => {
                let peer = self.below(self.peers.len());
                self.speak(peer);
            }
            _ => {
                let links: Vec<ReplicaId> = self.links.keys().copied().collect();
                if !links.is_empty() {
                    let id = links[self.below(links.len())];
                    self.pump(id);
                }
            }
        }
        self.act();
    }

    /// A peer ends its link; a replica that misses the end of its snapshot ends both.
    fn hang_up(&mut self, index: usize) {
        let Some(id) = self.peers[index].link.take() else { return };
        self.links.remove(&id);
        self.primary.closed(id, self.now_ms);
        self.act();
        if let Kind::Channel(main) = self.peers[index].kind
            && self.peers[main].expects == Expects::Beside
            && self.peers[main].link == self.peers[index].main_link
        {
            self.hang_up(main);
        }
    }

    fn pass_time(&mut self) {
        self.now_ms += 1000 * (1 + self.random.below(3));
        let kept = self.backlog.as_ref().map(Backlog::range);
        let mut view = StreamView { history: &mut self.history, kept };
        self.primary.tick(Role::Primary, false, &mut view, self.now_ms);
    }

    fn append(&mut self, bytes: &[u8]) {
        self.stream.extend_from_slice(bytes);
        if let Some(backlog) = &mut self.backlog {
            backlog.append(bytes);
        }
    }

    fn connect(&mut self, index: usize) {
        if self.peers[index].link.is_some() {
            return;
        }
        let Some(announced) = self.announced(index) else { return };
        let replica = ReplicaId(self.next_link);
        self.next_link += 1;
        let peer = &mut self.peers[index];
        peer.connect(replica);
        self.links.insert(replica, Link { peer: index, ..Link::default() });
        let (id, byte) = match peer.has {
            Some((id, offset)) if peer.kind == Kind::Psync => (id.to_string(), offset + 1),
            _ => ("?".to_owned(), 0),
        };
        let byte = byte.to_string();
        let ask = match peer.kind {
            Kind::Sync => SyncKind::Sync,
            Kind::Psync | Kind::SnapshotOnly | Kind::Channel(_) => {
                SyncKind::Psync { id: id.as_bytes(), byte: byte.as_bytes(), failover: false }
            }
        };
        let request = SyncRequest {
            replica,
            peer: "10.0.0.1",
            client: "id=7",
            announced: &announced,
            ask,
            is_monitor: false,
            has_output: false,
            asks_for_unmet: false,
        };
        let kept = self.backlog.as_ref().map(Backlog::range);
        let mut view = StreamView { history: &mut self.history, kept };
        let verdict = self.primary.sync(&request, PRIMARY, &mut view, self.now_ms);
        assert_eq!(verdict, SyncVerdict::Attached);
        self.attached += u64::from(announced.main.is_none());
    }

    /// What a peer announces; nothing if there is nothing to fetch on a second connection.
    fn announced(&mut self, index: usize) -> Option<ReplconfState> {
        let mut announced = announced(&self.peers[index].words);
        let Kind::Channel(main) = self.peers[index].kind else { return Some(announced) };
        if self.peers[main].expects != Expects::Beside {
            return None;
        }
        let link = self.peers[main].link?;
        self.peers[index].main_link = Some(link);
        let link = link.0.to_string();
        let words: [&[u8]; 4] = [b"rdb-channel", b"1", b"main-ch-client-id", link.as_bytes()];
        (self.primary.announce(&mut announced, &words, None) == ReplconfReply::Ok)
            .then_some(announced)
    }

    /// A peer acknowledges, or shows a sign of life.
    fn speak(&mut self, index: usize) {
        let peer = &mut self.peers[index];
        let Some(id) = peer.link else { return };
        match peer.ack() {
            Some(offset) => {
                let offset = offset.to_string();
                let args: [&[u8]; 2] = [b"ack", offset.as_bytes()];
                self.primary.replconf(id, &args, "id=7", self.now_ms);
            }
            None => self.primary.newline(id, self.now_ms),
        }
    }

    /// One step of the snapshot.
    fn make(&mut self) {
        let part = self.below(20);
        let Some(making) = &mut self.making else { return };
        let round = making.round;
        let Some(cut) = making.cut else {
            let at = self.stream.len() as u64;
            making.cut = Some(at);
            self.primary.snapshot_cut(round, at, 0, &self.history);
            return;
        };
        let body = snapshot_at(cut);
        let end = if self.is_calm { body.len() } else { body.len().min(making.written + part) };
        let bytes = &body[making.written..end];
        making.written = end;
        if making.target == SnapshotTarget::Socket {
            for id in &making.replicas {
                if let Some(link) = self.links.get_mut(id) {
                    link.out.extend_from_slice(bytes);
                }
            }
        }
        if end == body.len() {
            match making.target {
                SnapshotTarget::Socket => self.primary.snapshot_streamed(round, self.now_ms),
                SnapshotTarget::Disk => {
                    self.primary.snapshot_saved(round, body.len() as u64, self.now_ms);
                }
            }
            // Its last actions are done before another one may begin.
            let cut = self.making.take().and_then(|making| making.cut);
            self.act_with_file(cut);
        }
    }

    /// Moves some bytes of a link, from the backlog to the peer.
    fn pump(&mut self, id: ReplicaId) {
        let most = if self.is_calm { usize::MAX } else { self.below(200) };
        let Some(link) = self.links.get_mut(&id) else { return };
        if link.streams {
            let place = link.place.as_mut().expect("a stream has a place");
            let backlog = self.backlog.as_mut().expect("places are in a backlog");
            let slices = backlog.read(place, most).expect("the stream goes on");
            for slice in slices {
                link.out.extend_from_slice(slice.as_ref());
                place.advance(slice.as_ref().len());
            }
        }
        let sent: Vec<u8> = link.out.drain(..link.out.len().min(most)).collect();
        self.peers[link.peer].read(&sent, &self.stream);
        let count = self.peers.len() / 2;
        let (mains, channels) = self.peers.split_at_mut(count);
        for channel in channels {
            if let (Kind::Channel(main), Expects::End) = (channel.kind, &channel.expects) {
                mains[main].loaded_beside(channel, &self.stream);
            }
        }
        if link.out.is_empty() && std::mem::take(&mut link.noted) {
            self.primary.body_sent(id, self.now_ms);
        } else if link.out.is_empty() && link.closes {
            self.end(id);
        }
        self.act();
    }

    fn end(&mut self, id: ReplicaId) {
        let link = self.links.remove(&id).expect("a link ends once");
        self.peers[link.peer].link = None;
    }

    fn act(&mut self) {
        self.act_with_file(None);
    }

    /// Does what the engine wants done; a file is that of a snapshot as of this cut.
    fn act_with_file(&mut self, cut: Option<u64>) {
        for action in self.primary.take_actions() {
            match action {
                PrimaryAction::Send { replica, bytes } => {
                    self.link(replica).out.extend_from_slice(&bytes);
                }
                PrimaryAction::CreateBacklog => {
                    assert!(self.backlog.is_none());
                    self.backlog = Some(Backlog::new(self.stream.len() as u64, SIZE_MIN));
                }
                PrimaryAction::FreeBacklog => {
                    assert!(self.links.values().all(|link| link.place.is_none()));
                    assert!(self.backlog.take().is_some());
                }
                PrimaryAction::Pin { replica, from } => {
                    let backlog = self.backlog.as_mut().expect("made by then");
                    let place = backlog.place_at(from).expect("what is promised is kept");
                    assert!(self.link(replica).place.replace(place).is_none());
                }
                PrimaryAction::Unpin { .. } => panic!("nobody here names a connection"),
                PrimaryAction::Stream { replica } => {
                    let link = self.link(replica);
                    assert!(!link.streams && link.place.is_some());
                    link.streams = true;
                }
                PrimaryAction::StartSnapshot { round, target, replicas, .. } => {
                    assert!(self.making.is_none(), "one at a time");
                    let making = Making { round, target, replicas, cut: None, written: 0 };
                    self.making = Some(making);
                }
                PrimaryAction::AbortSnapshot { round } => {
                    let making = self.making.take().expect("there is one to abort");
                    assert_eq!(making.round, round);
                }
                PrimaryAction::SendFile { replica, .. } => {
                    let body = snapshot_at(cut.expect("a file is sent as its making ends"));
                    self.link(replica).out.extend_from_slice(&body);
                }
                PrimaryAction::NoteSent { replica } => self.link(replica).noted = true,
                PrimaryAction::Append { record } => self.append(record),
                PrimaryAction::Close { replica, when: CloseWhen::Now } => self.end(replica),
                PrimaryAction::Close { replica, when: CloseWhen::Flushed } => {
                    self.link(replica).closes = true;
                }
                PrimaryAction::Log { line, .. } => {
                    for (event, count) in EVENTS.iter().zip(&mut self.happened) {
                        *count += u64::from(line.contains(event));
                    }
                }
            }
        }
    }

    fn link(&mut self, id: ReplicaId) -> &mut Link {
        self.links.get_mut(&id).expect("actions are about links that are there")
    }

    /// Nothing fails any more: all peers get all there is, soon.
    fn calm_down(&mut self) {
        self.is_calm = true;
        for _ in 0..60 {
            for peer in 0..self.peers.len() {
                if self.peers[peer].kind != Kind::SnapshotOnly || self.peers[peer].has.is_none() {
                    self.connect(peer);
                }
                self.act();
                self.speak(peer);
            }
            self.make();
            self.pass_time();
            self.act();
            for id in self.links.keys().copied().collect::<Vec<_>>() {
                self.pump(id);
            }
            if self.peers.iter().all(|peer| self.is_done(peer)) {
                return;
            }
        }
        panic!("somebody waits for ever: {:?}", self.peers);
    }

    fn is_done(&self, peer: &Peer) -> bool {
        let offset = peer.has.map(|(_, offset)| offset);
        match peer.kind {
            Kind::SnapshotOnly => peer.link.is_none() && offset.is_some(),
            Kind::Channel(_) => peer.link.is_none(),
            Kind::Psync | Kind::Sync => {
                peer.expects == Expects::Stream && offset == Some(self.stream.len() as u64)
            }
        }
    }

    fn check_end(&mut self) {
        let counts = self.primary.counts();
        assert_eq!(counts.full + counts.partial_ok, self.attached);
        assert!(counts.partial_err <= counts.full);
        for peer in 0..self.peers.len() {
            self.speak(peer);
        }
        let psync = self.peers.iter().filter(|peer| peer.kind == Kind::Psync).count();
        let end = self.stream.len() as u64;
        assert!(self.primary.acks().filter(|(acked, _)| *acked >= end).count() >= psync);
        self.primary.drop_all(self.now_ms);
        self.act();
        if let Some(backlog) = &mut self.backlog {
            backlog.trim();
            assert_eq!(backlog.kept_for_places(), 0);
            assert!(backlog.memory() < 4 * SIZE_MIN as usize);
        }
        assert_eq!((self.links.len(), self.primary.rows(self.now_ms).count()), (0, 0));
        assert!(!self.primary.allows_writes());
    }
}

fn random_peer(random: &mut Random) -> Peer {
    let kind = match random.below(8) {
        0 => Kind::SnapshotOnly,
        1 => Kind::Sync,
        _ => Kind::Psync,
    };
    let mut words = String::new();
    for (word, one_in) in [("eof", 4), ("psync2", 2), ("rdb-channel-repl", 2)] {
        if random.below(one_in) != 0 {
            words = format!("{words} {word}");
        }
    }
    if random.below(4) == 0 {
        words.push_str(" version=9.0.0");
    }
    if kind == Kind::SnapshotOnly {
        words.push_str(" rdb-only=1");
    }
    Peer::new(kind, words)
}

/// Says which seed failed.
struct Seed(u64);

impl Drop for Seed {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}

#[test]
fn every_replica_gets_every_byte_in_the_end() {
    let mut happened = [0; EVENTS.len()];
    for seed in 0..10_000 {
        let _named = Seed(seed);
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.step();
        }
        world.calm_down();
        world.check_end();
        happened = std::array::from_fn(|event| happened[event] + world.happened[event]);
    }
    for (event, count) in EVENTS.iter().zip(happened) {
        assert!(count > 5, "{event}: {count}");
    }
}
