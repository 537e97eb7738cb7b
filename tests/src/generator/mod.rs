//! Random requests drawn from the declared commands: every option word, wrong arity, boundary
//! numbers, few keys so that commands meet.
//!
//! Invariants: one seed gives one sequence (for one oracle's declarations); whatever a request
//! stores expires far in the future or at once, so that two servers need not share a clock; what
//! a request stores does not depend on chance or on the time.

mod declared;
mod exceptions;
mod families;
mod hits;
mod rules;
mod state;
mod transactions;
mod values;

use std::collections::VecDeque;

use base::random::Random;

pub use declared::{Argument, Declared, Kind, shared};
pub use exceptions::{REDIS70, REDIS82, VALKEY91};
pub use hits::Hits;
pub use rules::{EXCLUDED, prologue, rule};
pub use state::{Has, compare_states};
pub use transactions::{Outcome, Transactions};

use crate::differential::{Command, Speaker, Step};
use families::Place;

/// One request in so many is spoilt in some way.
const SPOILT: u64 = 10;

/// Draws requests.
pub struct Generator<'a> {
    random: Random,
    commands: Vec<&'a Declared>,
    /// Running sums of the commands' weights.
    weights: Vec<u64>,
    payloads: &'a [Vec<u8>],
    /// What must follow the last request at once.
    followers: VecDeque<Drawn>,
    /// How many requests were drawn: the IDs of stream entries grow with it.
    turn: u64,
}

/// A request and what it was drawn from.
pub struct Drawn {
    /// The request, and its sender.
    pub step: Step,
    /// The name of its declaration.
    pub name: String,
    /// The numbers of the option words in it.
    pub tokens: Vec<usize>,
}

impl Drawn {
    /// A request whose option words do not count.
    fn plain(words: &[&[u8]]) -> Self {
        let command: Command = words.iter().map(|word| word.to_vec()).collect();
        let name = String::from_utf8_lossy(words[0]).to_ascii_lowercase();
        Self::of(command, name, Vec::new())
    }

    fn of(command: Command, name: String, tokens: Vec<usize>) -> Self {
        Self { step: Step { speaker: Speaker::First, command }, name, tokens }
    }
}

impl<'a> Generator<'a> {
    /// The sequence of a seed; the payloads are some that DUMP made.
    pub fn new(seed: u64, declared: &'a [Declared], payloads: &'a [Vec<u8>]) -> Self {
        let commands: Vec<&Declared> =
            declared.iter().filter(|command| rules::is_drawn(&command.name)).collect();
        let mut sum = 0;
        let weigh = |command: &&Declared| {
            sum += rules::weight(&command.name);
            sum
        };
        let weights = commands.iter().map(weigh).collect();
        let (random, followers) = (Random::from_seed(seed), VecDeque::new());
        Self { random, commands, weights, payloads, followers, turn: 0 }
    }

    /// The next request.
    pub fn draw(&mut self) -> Drawn {
        if let Some(follower) = self.followers.pop_front() {
            return follower;
        }
        let mut drawn = self.draw_one();
        if drawn.name == "spop" && families::settle_spop(&mut drawn.step.command) {
            // The member that SPOP takes by chance is then known.
            let lone = Drawn::plain(&[b"SADD", families::LONE, b"member"]);
            self.followers.push_back(drawn);
            return lone;
        }
        self.followers.extend(families::follower(&drawn));
        drawn
    }

    /// Whether the next request belongs to the last one.
    fn is_followed(&self) -> bool {
        !self.followers.is_empty()
    }

    fn draw_one(&mut self) -> Drawn {
        let total = self.weights.last().copied().unwrap_or_default();
        let point = self.random.below(total);
        self.draw_of(self.commands[self.weights.partition_point(|sum| *sum <= point)])
    }

    /// A request of this command, be it one that is drawn or not.
    pub fn draw_of(&mut self, declared: &Declared) -> Drawn {
        self.turn += 1;
        let mut request = Request::new(declared);
        if declared.name.starts_with("command|getkeys") {
            let whose = self.draw_one();
            request.command.extend(whose.step.command);
        } else {
            for argument in &declared.arguments {
                self.draw_argument(declared, argument, &mut request);
            }
        }
        let is_spoilt = self.random.below(SPOILT) == 0;
        if is_spoilt {
            self.spoil(declared, &mut request.command);
        }
        families::settle(&mut self.random, &mut request.command, is_spoilt);
        Drawn::of(request.command, declared.name.clone(), request.tokens)
    }

    fn draw_argument(&mut self, declared: &Declared, argument: &Argument, request: &mut Request) {
        if argument.is_optional && self.random.below(100) < 55 {
            return;
        }
        let rounds = self.rounds(declared, argument, request);
        let count_at = if argument.is_multiple { request.count_at.take() } else { None };
        for round in 0..rounds {
            if let Some(number) = argument.token.filter(|_| round == 0 || argument.repeats_token) {
                let token = self.cased(&declared.tokens[number]);
                request.tokens.push(number);
                request.command.extend(token.split(|byte| *byte == b' ').map(<[u8]>::to_vec));
            }
            self.draw_content(declared, argument, request);
        }
        if let Some(at) = count_at {
            request.command[at] = rounds.to_string().into_bytes();
        }
        if argument.is_multiple && argument.kind == Kind::Key {
            request.keys = rounds;
        }
    }

    /// How often an argument comes: mostly a few times, and as often as the keys if it is theirs.
    fn rounds(&mut self, declared: &Declared, argument: &Argument, request: &Request) -> u64 {
        let is_of_keys = argument.is_multiple && request.keys > 0;
        match self.random.below(20) {
            _ if !argument.is_multiple => 1,
            1.. if is_of_keys && families::has_one_for_each_key(declared, argument) => request.keys,
            0 if argument.kind != Kind::Key => 4 + self.random.below(12),
            _ => 1 + self.random.below(3),
        }
    }

    fn draw_content(&mut self, declared: &Declared, argument: &Argument, request: &mut Request) {
        match argument.kind {
            Kind::Token => {}
            Kind::OneOf => {
                let chosen = self.random.below(argument.members.len() as u64) as usize;
                self.draw_argument(declared, &argument.members[chosen], request);
                // Two of what excludes each other.
                if argument.is_optional && self.random.below(16) == 0 {
                    let other = self.random.below(argument.members.len() as u64) as usize;
                    self.draw_argument(declared, &argument.members[other], request);
                }
            }
            Kind::Block => {
                for member in &argument.members {
                    self.draw_argument(declared, member, request);
                }
            }
            _ => {
                let place =
                    Place { command: declared, argument, words: &request.command, turn: self.turn };
                let value = values::draw(&mut self.random, &place, self.payloads);
                if families::COUNTS.contains(&argument.name.as_str()) {
                    request.count_at = Some(request.command.len());
                }
                request.command.push(value);
            }
        }
    }

    /// An option word, mostly as it is documented.
    fn cased(&mut self, token: &str) -> Vec<u8> {
        let mut token = token.as_bytes().to_vec();
        match self.random.below(8) {
            0 => token.make_ascii_lowercase(),
            1 => {
                let at = self.random.below(token.len() as u64) as usize;
                token[at] = token[at].to_ascii_lowercase();
            }
            _ => {}
        }
        token
    }

    /// Makes a request wrong, or at least odd: too short, too long, out of order.
    fn spoil(&mut self, declared: &Declared, command: &mut Command) {
        let begin = declared.words.len();
        let at = begin + self.random.below((command.len() - begin + 1) as u64) as usize;
        let spoils = rules::spoils(&declared.name);
        if spoils.is_empty() {
            return;
        }
        match spoils[self.random.below(spoils.len() as u64) as usize] {
            Spoil::Omit if at < command.len() => {
                command.remove(at);
            }
            Spoil::Cut => command.truncate(at),
            Spoil::Repeat if at < command.len() => command.insert(at, command[at].clone()),
            // A value in the place of a time might be a second.
            Spoil::Swap if at + 1 < command.len() && !values::has_time(&declared.arguments) => {
                command.swap(at, at + 1);
            }
            Spoil::Option if !declared.tokens.is_empty() => {
                let number = self.random.below(declared.tokens.len() as u64) as usize;
                let token = self.cased(&declared.tokens[number]);
                command.insert(at, token);
            }
            Spoil::Insert => command.insert(at, values::any(&mut self.random)),
            _ => {}
        }
    }
}

/// Ways to make a request wrong.
#[derive(Clone, Copy)]
enum Spoil {
    /// An argument is missing.
    Omit,
    /// All arguments from one on are missing.
    Cut,
    /// An argument stands there twice.
    Repeat,
    /// Two neighbours change places.
    Swap,
    /// One of the option words comes where it may not belong.
    Option,
    /// Any value comes in between.
    Insert,
}

/// A request being drawn.
struct Request {
    command: Command,
    tokens: Vec<usize>,
    /// Where a number stands that must say how many arguments follow.
    count_at: Option<usize>,
    /// How many keys stand there.
    keys: u64,
}

impl Request {
    fn new(declared: &Declared) -> Self {
        Self { command: declared.words.clone(), tokens: Vec::new(), count_at: None, keys: 0 }
    }
}
