//! Hundreds of sessions that live beside each other, as `life.rs` has it, in a world that is a
//! model: they send, stall, hang up, are killed, moved and unblocked, lose their rights, and meet
//! at locks and queues, by a seed.
//!
//! A session is looked at only where it was woken, so a wake-up that is missing shows, too.
//! `APUS_LIVES=1000000` asks for so many steps, of a fresh seed.

mod body;
mod world;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};

use base::random::Random;

use body::{INPUT_MOST, Model, OWED_MOST, SimulatedWait, What};
use world::{Id, KEYS, Kind, Rights, USERS, World};

use super::{BACKLOG_LIMIT, LifeOutcome, Wait, live};
use crate::clients::registry::{Client, Clients, Delivery, Peer, Signal};

/// How many sessions there are at a time.
const SESSIONS: usize = 300;
/// How many steps a short run has, and after how many everything comes to rest.
const STEPS: usize = 20_000;
const EPISODE: usize = 5000;
/// The seed of a short run; a long one draws its own.
const SEED: u64 = 38;
/// The longest reply, and the longest message.
const REPLY_MOST: usize = BACKLOG_LIMIT + BACKLOG_LIMIT / 2;
const MESSAGE_MOST: usize = 1 << 18;
/// The user that is never deleted.
const LASTING: usize = 0;
/// Stands for all threads that are no sessions.
const NOBODY: Id = Id::MAX;

/// Wakes a session at the worker that it lives at.
struct Bell {
    id: Id,
    /// How often it has moved.
    moves: u32,
    woken: Arc<Mutex<BTreeSet<(Id, u32)>>>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.woken.lock().unwrap().insert((self.id, self.moves));
    }
}

/// A session with its client.
struct Life {
    model: Model,
    waker: Waker,
    moves: u32,
    /// What the client has sent, and how much of what it got was looked at.
    sent: Vec<Kind>,
    seen: usize,
    answered: usize,
    is_killed: bool,
    is_cut_off: bool,
}

struct Simulation {
    random: Random,
    clients: Clients,
    world: Rc<RefCell<World>>,
    lives: Vec<Life>,
    next: Id,
    woken: Arc<Mutex<BTreeSet<(Id, u32)>>>,
    /// Elements that clients got, and those that went with sessions that were served and ended.
    taken: u64,
    lost: u64,
    /// How many sessions were over.
    ended: usize,
}

impl Simulation {
    fn new(seed: u64) -> Self {
        let mut random = Random::from_seed(seed);
        let world = World::new(Random::from_seed(random.next_u64()));
        let mut simulation = Self {
            random,
            clients: Clients::default(),
            world: Rc::new(RefCell::new(world)),
            lives: Vec::new(),
            next: 0,
            woken: Arc::default(),
            taken: 0,
            lost: 0,
            ended: 0,
        };
        (0..SESSIONS).for_each(|_| simulation.connect());
        simulation
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// One in so many.
    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }

    fn connect(&mut self) {
        let client = self.clients.register(Peer::Unix, Peer::Unix, 0, 0);
        // A user that is deleted has no new clients.
        let user = self.below(USERS) as usize;
        let is_there = self.world.borrow().rights(user) != Rights::None;
        let user = if is_there { user } else { LASTING };
        let model = Model::new(Rc::clone(&self.world), self.next, client, user);
        self.next += 1;
        let waker = self.bell(model.id, 0);
        let (sent, seen, answered) = (Vec::new(), 0, 0);
        let (is_killed, is_cut_off) = (false, false);
        let mut life = Life { model, waker, moves: 0, sent, seen, answered, is_killed, is_cut_off };
        life.attach();
        self.lives.push(life);
    }

    fn bell(&self, id: Id, moves: u32) -> Waker {
        Waker::from(Arc::new(Bell { id, moves, woken: Arc::clone(&self.woken) }))
    }

    fn draw_request(&mut self) -> Kind {
        let key = self.below(KEYS) as usize;
        match self.below(20) {
            0..3 => Kind::Echo(1 + self.below(2000) as usize),
            3 => Kind::Echo(self.below(REPLY_MOST as u64) as usize),
            4 => Kind::Long(1 + self.below(2 * REPLY_MOST as u64) as usize),
            5..9 => Kind::Get(key),
            9..12 => Kind::Push(key),
            12 | 13 => Kind::Pop(key, None),
            14 | 15 => Kind::Pop(key, Some(1 + self.below(300))),
            16 => Kind::Unit(key, 1 + self.below(100) as u32, self.below(3) as u32),
            17 => Kind::Slow(key, 1 + self.below(200) as u32),
            18 => Kind::Sync(1 + self.below(300)),
            _ if self.one_in(8) => Kind::Quit,
            _ => Kind::Get(key),
        }
    }

    /// Something happens.
    fn step(&mut self) {
        let at = self.below(self.lives.len() as u64) as usize;
        match self.below(40) {
            0..12 => self.send(at),
            12..18 => self.read(at),
            18 => {
                let pipe = &mut self.lives[at].model.pipe;
                (pipe.is_ended, pipe.is_broken) = (true, self.random.below(2) == 0);
                pipe.wake();
            }
            19 if self.one_in(3) => self.kill(at),
            20 => self.unblock(at),
            21 => self.lives[at].ask(Signal::Move),
            22..25 => self.publish(at),
            25 => {
                let (is_paused, is_shut) = (self.one_in(3), self.one_in(4));
                self.world.borrow_mut().keep_out(is_paused, is_shut);
            }
            26 if self.one_in(3) => {
                let user = self.below(USERS) as usize;
                let rights = match self.below(8) {
                    0 if user != LASTING => Rights::None,
                    0..4 => Rights::Reading,
                    _ => Rights::All,
                };
                self.set_rights(user, rights);
                // Before the sessions that it is about have looked.
                (0..self.below(8)).for_each(|_| self.push());
            }
            27 => self.world.borrow_mut().sync(),
            28..30 => {
                let time = 1 + self.below(30);
                self.world.borrow_mut().pass_time(time);
            }
            30 => self.push(),
            _ => _ = self.world.borrow_mut().work_on(),
        }
        // Some turns later or sooner, in any order.
        for _ in 0..self.below(6) {
            self.take_turn();
        }
    }

    fn send(&mut self, at: usize) {
        let count = if self.one_in(30) { 1 + self.below(250) } else { 1 + self.below(4) };
        for _ in 0..count {
            let request = self.draw_request();
            let life = &mut self.lives[at];
            if !life.model.pipe.is_ended {
                life.model.pipe.incoming.push_back(request);
                life.sent.push(request);
            }
        }
        self.lives[at].model.pipe.wake();
    }

    fn read(&mut self, at: usize) {
        let room = self.below(4) * self.below(1 << 19);
        let pipe = &mut self.lives[at].model.pipe;
        pipe.room = pipe.room.max(room as usize);
        pipe.wake();
    }

    fn kill(&mut self, at: usize) {
        let life = &mut self.lives[at];
        life.is_killed = true;
        life.ask(Signal::Kill);
    }

    fn unblock(&mut self, at: usize) {
        let life = &mut self.lives[at];
        let SimulatedWait::Event(event) = &life.model.suspension else { return };
        match &event.queue {
            Some((_, waiter)) if world::give_up(waiter) => life.model.client.wake(),
            Some(_) => {}
            None => life.ask(Signal::Unblock),
        }
    }

    /// A thread without a session pushes an element.
    fn push(&mut self) {
        let key = self.below(KEYS) as usize;
        let mut world = self.world.borrow_mut();
        if world.try_lock(key, NOBODY) {
            world.push(key);
            world.give_back(key, NOBODY);
        }
    }

    /// Some messages, or many long ones.
    fn publish(&mut self, at: usize) {
        let (count, most) = if self.one_in(4) { (12, MESSAGE_MOST) } else { (2, 2000) };
        for _ in 0..=self.below(count) {
            let length = 1 + self.below(most as u64) as usize;
            let client = &self.lives[at].model.client;
            let message: Arc<[u8]> = vec![0; length].into();
            if client.deliver(Delivery::Messages(Arc::new([message]))) {
                client.wake();
            }
        }
    }

    fn set_rights(&mut self, user: usize, rights: Rights) {
        let of_user = self.lives.iter().filter(|life| life.model.user == user);
        let clients: Vec<Arc<Client>> = of_user.map(|it| Arc::clone(&it.model.client)).collect();
        self.world.borrow_mut().set_rights(user, rights, &clients);
    }

    /// Has one of the woken sessions look; whether there was any.
    fn take_turn(&mut self) -> bool {
        let (id, moves) = {
            let mut woken = self.woken.lock().unwrap();
            let count = woken.len() as u64;
            if count == 0 {
                return false;
            }
            let one = *woken.iter().nth(self.random.below(count) as usize).unwrap();
            woken.remove(&one);
            one
        };
        let found = self.lives.iter().position(|life| life.model.id == id);
        let Some(at) = found.filter(|at| self.lives[*at].moves == moves) else { return true };
        let bell = self.bell(id, moves + 1);
        let life = &mut self.lives[at];
        let waker = life.waker.clone();
        let rest = live(&mut life.model, &mut Context::from_waker(&waker));
        self.taken += life.receive();
        if rest == LifeOutcome::Moves {
            life.model.move_on();
        }
        let looks_again = self.woken.lock().unwrap().contains(&(id, moves));
        life.check(rest, looks_again);
        match rest {
            LifeOutcome::Waits => {}
            LifeOutcome::Moves => {
                (life.moves, life.waker) = (moves + 1, bell);
                life.attach();
            }
            LifeOutcome::Over => {
                self.lost += life.model.elements() as u64;
                self.clients.remove(life.model.client.id);
                self.lives.swap_remove(at);
                self.ended += 1;
                self.connect();
            }
        }
        self.check();
        true
    }

    /// A session that has something to look at is about to, and no session that is over is
    /// anywhere.
    fn check(&self) {
        let (world, woken) = (self.world.borrow(), self.woken.lock().unwrap());
        let looks = |id| {
            let life = self.lives.iter().find(|life| life.model.id == id);
            life.is_some_and(|life| woken.contains(&(id, life.moves)))
        };
        for id in world.granted() {
            assert!(looks(id), "{id} has a lock and does not look");
        }
        for id in world.overlooked() {
            assert!(looks(id), "{id} waits for what is there");
        }
        for id in world.stand_in_queues() {
            assert!(!world.gone.contains(&id), "{id} is over and stands in a queue");
        }
    }

    /// Nothing new happens, and everything that can end does.
    fn come_to_rest(&mut self) {
        (0..USERS as usize).for_each(|user| self.set_rights(user, Rights::All));
        self.world.borrow_mut().keep_out(false, false);
        let mut rounds = 0;
        loop {
            self.lives.iter_mut().for_each(|life| life.model.pipe.take_all());
            while self.take_turn() {}
            let mut world = self.world.borrow_mut();
            let has_work = world.work_on();
            world.sync();
            world.pass_time(10);
            let rests = !has_work && !world.has_timers();
            drop(world);
            if rests && self.woken.lock().unwrap().is_empty() {
                break;
            }
            rounds += 1;
            assert!(rounds < 100_000, "it does not come to rest");
        }
        let world = self.world.borrow();
        self.lives.iter().for_each(|life| life.check_answered(&world));
        let left = world.lists.iter().map(|list| list.len() as u64).sum::<u64>();
        let lost = self.lost + world.swallowed;
        assert_eq!(world.underway, 0, "units are left in the middle");
        assert_eq!(world.pushed, left + self.taken + lost, "elements are lost, or there twice");
    }
}

impl Life {
    fn attach(&mut self) {
        self.model.client.set_waker(&self.waker);
        self.waker.wake_by_ref();
    }

    fn ask(&self, signal: Signal) {
        self.model.client.ask(signal);
        self.model.client.wake();
    }

    /// Looks at what the client got: each request is answered once, in order. Returns how many
    /// elements there are among it.
    fn receive(&mut self) -> u64 {
        let mut elements = 0;
        for what in &self.model.pipe.received[self.seen..] {
            let kind = match *what {
                What::Message => continue,
                What::Element(kind, _) => {
                    elements += 1;
                    kind
                }
                What::Reply(kind) | What::Denied(kind) | What::Busy(kind) | What::Nothing(kind) => {
                    kind
                }
            };
            assert_eq!(self.sent[self.answered], kind, "{what:?} answers another request");
            self.answered += 1;
        }
        self.seen = self.model.pipe.received.len();
        elements
    }

    /// What must be true of a session whenever it has looked.
    fn check(&mut self, rest: LifeOutcome, looks_again: bool) {
        let model = &self.model;
        let (id, world) = (model.id, model.world.borrow());
        let holds = world.granted().any(|it| it == id);
        assert!(!holds, "{id} holds a lock that it does not use");
        assert!(model.unexecuted() <= INPUT_MOST || model.is_overrun, "{id} keeps too much");
        let owed = model.unsent() + model.client.delivery_bytes();
        let most = OWED_MOST + REPLY_MOST + MESSAGE_MOST;
        assert!(owed <= most, "{id} owes {owed} bytes");
        // The reason may be gone until it comes to its end.
        let is_cut_off = model.is_cut_off && !std::mem::replace(&mut self.is_cut_off, true);
        if rest == LifeOutcome::Over || is_cut_off {
            let may_end = self.is_killed
                || self.is_cut_off && !is_cut_off
                || model.pipe.is_ended
                || model.is_closing
                || model.is_overrun
                || model.is_over_output_limit
                || world.rights(model.user) == Rights::None;
            assert!(may_end, "{id} is over for no reason");
            let may_owe = self.is_killed
                || model.is_cut_off
                || model.pipe.is_broken
                || model.is_overrun
                || model.is_over_output_limit
                || world.rights(model.user) == Rights::None;
            assert!(may_owe || model.unsent() == 0, "{id} keeps replies for itself");
        }
        if rest == LifeOutcome::Over {
            assert!(!world.has_locks(id), "{id} is over and waits for a lock");
        } else {
            // A unit that is half done comes to its end without a client.
            let may_live = model.is_cut_off && model.wait() == Wait::Return;
            assert!(may_live || !self.is_killed, "{id} was killed and lives on");
            let has_user = world.rights(model.user) != Rights::None;
            assert!(may_live || has_user, "{id} has no user and lives on");
            let waits = matches!(model.wait(), Wait::Event | Wait::Postponed);
            // The end comes behind all that it has sent, which takes some turns to read.
            let is_gone = model.pipe.is_ended && !looks_again;
            assert!(!waits || !is_gone, "{id} waits though its client is gone");
        }
    }

    /// What must be true of a session when nothing is left to wait for.
    fn check_answered(&self, world: &World) {
        let (model, id) = (&self.model, self.model.id);
        assert_eq!(model.unsent(), 0, "{id} keeps replies that can leave");
        if let SimulatedWait::Event(event) = &model.suspension {
            let (key, _) = event.queue.as_ref().expect("all else has its time");
            assert!(world.lists[*key].is_empty(), "{id} waits for what is there");
            return;
        }
        assert_eq!(model.wait(), Wait::Nothing, "{id} waits for what has come");
        assert_eq!(self.answered, self.sent.len(), "{id} is not answered");
    }
}

#[test]
fn sessions_that_meet_harm_nobody() {
    let asked = std::env::var("APUS_LIVES").ok();
    let asked = asked.map(|number| number.parse().expect("APUS_LIVES is a number"));
    let seed = if asked.is_some() { Random::from_entropy().next_u64() } else { SEED };
    eprintln!("seed {seed}");
    let mut simulation = Simulation::new(seed);
    for step in 1..=asked.unwrap_or(STEPS) {
        simulation.step();
        if step % EPISODE == 0 {
            simulation.come_to_rest();
        }
    }
    simulation.come_to_rest();
    eprintln!("{} sessions were over, {} elements taken", simulation.ended, simulation.taken);
    if asked.is_none() {
        assert!(simulation.ended > SESSIONS && simulation.taken > SESSIONS as u64);
    }
}
