//! Scripts against a host that knows a few commands.

use std::collections::HashMap;

use proto::{Args, Output, OwnedArgs, Reply, Resp};

use crate::{
    DirectExit, DirectState, Fault, Host, Input, Interpreter, Limits, LogLevel, Program,
    Replication, Stop, Version,
};

mod direct;
mod hostile;
mod isolation;
mod libraries;
mod lua_stack_fuzz;
mod protocols;
mod recorded;

/// A server of strings.
#[derive(Clone, Debug, Default, PartialEq)]
struct Shop {
    strings: HashMap<Vec<u8>, Vec<u8>>,
    lines: Vec<String>,
    /// Errors in what scripts returned, and whether each was new.
    returned_errors: Vec<(String, bool)>,
    /// So many looks at the time are allowed.
    patience: Option<usize>,
    /// What the command STOP answers.
    stop: Option<Stop>,
}

impl Host for Shop {
    fn note_returned_error(&mut self, text: &[u8], is_new: bool) {
        let text = String::from_utf8_lossy(text).into_owned();
        self.returned_errors.push((text, is_new));
    }

    fn call(&mut self, args: Args<'_>, resp: Resp, reply: &mut Output) -> Result<(), Stop> {
        let mut reply = Reply::new(reply, resp);
        match (args[0].to_ascii_lowercase().as_slice(), args.len()) {
            (b"set", 3) => {
                self.strings.insert(args[1].to_vec(), args[2].to_vec());
                reply.ok();
            }
            (b"get", 2) => match self.strings.get(&args[1]) {
                Some(value) => reply.bulk(value),
                None => reply.null(),
            },
            (b"pieces" | b"torn", 2) => {
                if args[0].eq_ignore_ascii_case(b"torn") {
                    reply.raw(b"*2\r\n");
                }
                reply.bulk_shared(Box::new(self.strings[&args[1]].clone()));
            }
            (b"zadd" | b"sadd", _) => reply.integer(1),
            (b"incr", 2) => reply.error("ERR value is not an integer or out of range"),
            (b"reply", 2) => reply.raw(&args[1]),
            (b"count", _) => reply.integer(args.len() as i64),
            (b"ping", 1) => reply.simple("PONG"),
            (b"panic", 1) => panic!("as a test wants it"),
            (b"stop", _) => return Err(self.stop.expect("a test that stops says how")),
            (b"get" | b"set" | b"incr", _) => {
                reply.error("ERR Wrong number of args calling Redis command from script");
            }
            _ => reply.error("ERR Unknown Redis command called from script"),
        }
        Ok(())
    }

    fn log(&mut self, level: LogLevel, text: &[u8]) {
        self.lines.push(format!("{level:?} {}", String::from_utf8_lossy(text)));
    }

    fn set_replication(&mut self, to: Replication) {
        self.lines.push(format!("{to:?}"));
    }

    fn may_call(&mut self, args: Args<'_>) -> Option<bool> {
        (&args[0] != b"nosuch").then_some(true)
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        match &mut self.patience {
            None => Ok(()),
            Some(0) => Err(self.stop.expect("a test that stops says how")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

const LIMITS: Limits = Limits { memory: 32 << 20 };

/// An interpreter and its shop. Whatever can be run without Lua is, and has to come to the same.
struct Bench {
    lua: Interpreter,
    shop: Shop,
    seed: Option<u64>,
}

impl Bench {
    fn new() -> Bench {
        let version = Version { text: "8.2.3".to_owned(), number: 0x0008_0203 };
        Bench { lua: Interpreter::new(&version), shop: Shop::default(), seed: None }
    }

    fn outcome(
        &mut self,
        resp: Resp,
        script: &[u8],
        arguments: &[&[u8]],
    ) -> Result<Vec<u8>, Fault> {
        let program = Program::parse(script).map_err(Fault::Error)?;
        let arguments: OwnedArgs = arguments.iter().copied().collect();
        let input =
            Input { keys: Args::default(), arguments: arguments.as_args(), seed: self.seed };
        let mut shop = self.shop.clone();
        let directly = run_directly(&program, input, resp, &mut shop);
        let result = self.run(&program, input, resp);
        match &directly {
            Ok(reply) => {
                assert_eq!(result.as_ref(), Ok(reply), "{}", script.escape_ascii());
                assert_eq!(self.shop, shop, "{}", script.escape_ascii());
            }
            // Lua words it where a run is killed.
            Err(DirectExit::GaveUp | DirectExit::Stop(Stop::Killed)) => {}
            Err(DirectExit::Stop(stop)) => assert_eq!(result, Err(Fault::Stop(*stop))),
        }
        result
    }

    /// Runs a program in Lua.
    fn run(&mut self, program: &Program, input: Input<'_>, resp: Resp) -> Result<Vec<u8>, Fault> {
        let mut output = Output::new();
        let mut reply = Reply::new(&mut output, resp);
        let result = self.lua.run(program, input, &mut self.shop, LIMITS, &mut reply);
        result.map(|()| bytes_of(output))
    }

    /// The reply as a client gets it.
    fn reply(&mut self, resp: Resp, script: &[u8]) -> Vec<u8> {
        match self.outcome(resp, script, &[]) {
            Ok(reply) => reply,
            Err(Fault::Error(error)) => {
                let mut output = Output::new();
                Reply::new(&mut output, resp).error(&error.text);
                bytes_of(output)
            }
            Err(Fault::Stop(stop)) => panic!("{stop:?}"),
        }
    }
}

/// Runs a program without Lua.
fn run_directly(
    program: &Program,
    input: Input<'_>,
    resp: Resp,
    shop: &mut Shop,
) -> Result<Vec<u8>, DirectExit> {
    let (mut output, mut bench) = (Output::new(), DirectState::default());
    let mut reply = Reply::new(&mut output, resp);
    let result = program.run_directly(input, shop, LIMITS, &mut bench, &mut reply);
    result.map(|()| bytes_of(output))
}

/// Runs with the stack that a thread of the server has; that of a test is small for what nests.
fn on_deep_stack(body: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new().stack_size(8 << 20).spawn(body).unwrap();
    thread.join().unwrap();
}

fn bytes_of(mut output: Output) -> Vec<u8> {
    let mut bytes = Vec::new();
    while !output.is_empty() {
        bytes.extend_from_slice(output.front());
        output.consume(output.front().len());
    }
    bytes
}
