//! Random requests drawn from the declared commands: every option word, wrong arity, boundary
//! numbers, few keys so that commands meet.
//!
//! Invariants: one seed gives one sequence (for one oracle's declarations); whatever a request
//! stores expires far in the future or at once, so that two servers need not share a clock.

mod declared;
mod hits;
mod rules;
mod values;

use base::random::Random;

pub use declared::{Argument, Declared, Kind, shared};
pub use hits::Hits;
pub use rules::{EXCLUDED, PROLOGUE, rule};

use crate::differential::Command;

/// One request in so many is spoilt in some way.
const SPOILT: u64 = 10;

/// Draws requests.
pub struct Generator<'a> {
    random: Random,
    commands: Vec<&'a Declared>,
    /// Running sums of the commands' weights.
    weights: Vec<u64>,
    payloads: &'a [Vec<u8>],
}

/// A request and what it was drawn from.
pub struct Drawn {
    /// The request.
    pub command: Command,
    /// The name of its declaration.
    pub name: String,
    /// The numbers of the option words in it.
    pub tokens: Vec<usize>,
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
        Self { random: Random::from_seed(seed), commands, weights, payloads }
    }

    /// The next request.
    pub fn draw(&mut self) -> Drawn {
        let total = self.weights.last().copied().unwrap_or_default();
        let point = self.random.below(total);
        let declared = self.commands[self.weights.partition_point(|sum| *sum <= point)];
        let mut request = Request::new(declared);
        if declared.name.starts_with("command|getkeys") {
            let whose = self.draw();
            request.command.extend(whose.command);
        } else {
            for argument in &declared.arguments {
                self.draw_argument(declared, argument, &mut request);
            }
        }
        if self.random.below(SPOILT) == 0 && rules::may_be_spoilt(&declared.name) {
            self.spoil(declared, &mut request.command);
        }
        Drawn { command: request.command, name: declared.name.clone(), tokens: request.tokens }
    }

    fn draw_argument(&mut self, declared: &Declared, argument: &Argument, request: &mut Request) {
        if argument.is_optional && self.random.below(100) < 55 {
            return;
        }
        let rounds = if argument.is_multiple { 1 + self.random.below(3) } else { 1 };
        let count_at = if argument.is_multiple { request.count_at.take() } else { None };
        for _ in 0..rounds {
            if let Some(number) = argument.token {
                let token = self.cased(&declared.tokens[number]);
                request.tokens.push(number);
                request.command.extend(token.split(|byte| *byte == b' ').map(<[u8]>::to_vec));
            }
            self.draw_content(declared, argument, request);
        }
        if let Some(at) = count_at {
            request.command[at] = rounds.to_string().into_bytes();
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
                let value = values::draw(&mut self.random, declared, argument, self.payloads);
                if argument.name == "numkeys" {
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
        match self.random.below(6) {
            0 if at < command.len() => {
                command.remove(at);
            }
            1 => command.truncate(at),
            2 if at < command.len() => command.insert(at, command[at].clone()),
            // A value in the place of a time might be a second.
            3 if at + 1 < command.len() && !values::has_time(&declared.arguments) => {
                command.swap(at, at + 1);
            }
            4 if !declared.tokens.is_empty() => {
                let number = self.random.below(declared.tokens.len() as u64) as usize;
                let token = self.cased(&declared.tokens[number]);
                command.insert(at, token);
            }
            _ => command.insert(at, values::any(&mut self.random)),
        }
    }
}

/// A request being drawn.
struct Request {
    command: Command,
    tokens: Vec<usize>,
    /// Where a number stands that must say how many arguments follow.
    count_at: Option<usize>,
}

impl Request {
    fn new(declared: &Declared) -> Self {
        Self { command: declared.words.clone(), tokens: Vec::new(), count_at: None }
    }
}
