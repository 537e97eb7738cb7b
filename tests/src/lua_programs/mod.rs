//! Lua programs drawn at random from a grammar, as scripts and functions, among plain commands and
//! the transactions of two connections.
//!
//! Invariants: one seed gives one sequence; every program ends soon, and holds little; nothing
//! that it answers or stores depends on the time, on addresses or on the order of unordered
//! things.

mod commands;
mod exceptions;
mod grammar;

use base::random::Random;

pub use exceptions::{PROGRAMS_REDIS70, PROGRAMS_VALKEY91};

use crate::client::line;
use crate::differential::{Command, Speaker, Step};
use grammar::Grammar;

/// Something that is asked, and can be left out.
#[derive(Clone, Debug)]
pub enum Request {
    /// A command as it is.
    Plain(Step),
    /// A program and how it is run.
    Program(Speaker, Program),
}

/// A program: its statements, which can be left out, and what it is run with.
#[derive(Clone, Debug)]
pub struct Program {
    form: Form,
    statements: Vec<String>,
    keys: Vec<Vec<u8>>,
    arguments: Vec<Vec<u8>>,
}

/// How a program is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Eval,
    EvalReadOnly,
    /// With a line before it that says it does not write.
    EvalNoWrites,
    /// As a function of a library that is loaded before.
    Function,
    FunctionReadOnly,
}

/// Draws requests.
pub struct Programs {
    random: Random,
    speaker: Speaker,
    is_queueing: [bool; 2],
    is_recent: bool,
}

impl Programs {
    /// The sequence of a seed; whether for servers newer than Redis 7.0.
    pub fn new(seed: u64, is_recent: bool) -> Self {
        let random = Random::from_seed(seed);
        Self { random, speaker: Speaker::First, is_queueing: [false; 2], is_recent }
    }

    /// So many requests for an empty world, with nothing queued or watched.
    pub fn draw(&mut self, count: usize) -> Vec<Request> {
        self.is_queueing = [false; 2];
        (0..count).map(|_| self.draw_one()).collect()
    }

    fn draw_one(&mut self) -> Request {
        if self.random.below(5) == 0 {
            self.speaker = match self.speaker {
                Speaker::First => Speaker::Second,
                Speaker::Second => Speaker::First,
            };
        }
        let is_queueing = &mut self.is_queueing[self.speaker as usize];
        let words: &[&str] = match (*is_queueing, self.random.below(100)) {
            (true, 0..20) => &["EXEC"],
            (true, 20..23) => &["DISCARD"],
            (false, 0..6) => &["MULTI"],
            (false, 6..9) => &["WATCH", "a", "l:1", "h:1"],
            (_, 23..45) => {
                let command = commands::draw(&mut self.random);
                return Request::Plain(Step { speaker: self.speaker, command });
            }
            _ => return Request::Program(self.speaker, self.draw_program()),
        };
        *is_queueing = words[0] == "MULTI" || *is_queueing && words[0] == "WATCH";
        let command = words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Request::Plain(Step { speaker: self.speaker, command })
    }

    fn draw_program(&mut self) -> Program {
        let form = match self.random.below(20) {
            0 => Form::EvalReadOnly,
            1 => Form::EvalNoWrites,
            2..5 => Form::Function,
            5 => Form::FunctionReadOnly,
            _ => Form::Eval,
        };
        let mut draw_some = |most: u64, draw: fn(&mut Random) -> Vec<u8>| {
            let count = self.random.below(most);
            (0..count).map(|_| draw(&mut self.random)).collect::<Vec<_>>()
        };
        let keys = draw_some(4, commands::key);
        let arguments = draw_some(4, commands::value);
        let mut grammar =
            Grammar::new(&mut self.random, (keys.len(), arguments.len()), self.is_recent);
        let statements = grammar.program();
        Program { form, statements, keys, arguments }
    }
}

impl Request {
    /// The speaker that sends it.
    pub fn speaker(&self) -> Speaker {
        match self {
            Self::Plain(step) => step.speaker,
            Self::Program(speaker, _) => *speaker,
        }
    }

    /// What is sent.
    pub fn steps(&self) -> Vec<Step> {
        match self {
            Self::Plain(step) => vec![step.clone()],
            Self::Program(speaker, program) => {
                let step = |command| Step { speaker: *speaker, command };
                program.commands().into_iter().map(step).collect()
            }
        }
    }

    /// The same with one statement fewer, in each way there is.
    pub fn shorter(&self) -> Vec<Self> {
        let Self::Program(speaker, program) = self else { return Vec::new() };
        let without = |at: usize| {
            let mut program = program.clone();
            program.statements.remove(at);
            Self::Program(*speaker, program)
        };
        (0..program.statements.len()).map(without).collect()
    }

    /// The request as a user might write it.
    pub fn text(&self) -> String {
        match self {
            Self::Plain(step) => line(&step.command),
            Self::Program(_, program) => {
                let [keys, arguments] =
                    [&program.keys, &program.arguments].map(|words| line(words));
                format!("{:?} [{keys}] [{arguments}]\n{}", program.form, program.body())
            }
        }
    }
}

impl Program {
    fn body(&self) -> String {
        let mut text = String::from(grammar::VARIABLES);
        for statement in &self.statements {
            text.push('\n');
            text.push_str(statement);
        }
        text
    }

    fn commands(&self) -> Vec<Command> {
        let (body, name) = (self.body(), "drawn");
        let function = format!(
            "#!lua name=drawn\nredis.register_function{{function_name='{name}', flags={{{}}}, \
             callback=function(KEYS, ARGV)\n{body}\nend}}",
            if self.form == Form::FunctionReadOnly { "'no-writes'" } else { "" }
        );
        let load = ["FUNCTION", "LOAD", "REPLACE", &function];
        let load = load.map(|word| word.as_bytes().to_vec()).to_vec();
        let call = |verb: &str, what: &str| {
            let count = self.keys.len().to_string();
            let head = [verb, what, &count].map(|word| word.as_bytes().to_vec());
            [&head[..], &self.keys, &self.arguments].concat()
        };
        match self.form {
            Form::Eval => vec![call("EVAL", &body)],
            Form::EvalReadOnly => vec![call("EVAL_RO", &body)],
            Form::EvalNoWrites => vec![call("EVAL", &format!("#!lua flags=no-writes\n{body}"))],
            Form::Function => vec![load, call("FCALL", name)],
            Form::FunctionReadOnly => vec![load, call("FCALL_RO", name)],
        }
    }
}
