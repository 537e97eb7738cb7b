//! The heads of scripts and libraries, and the decoders that scripts call, on any bytes: a value or
//! an error, in bounded memory.
#![no_main]

use std::cell::RefCell;

use libfuzzer_sys::fuzz_target;
use proto::{Args, Output, OwnedArgs, Reply, Resp};
use script::{
    Fault, Host, Input, Interpreter, Library, Limits, LogLevel, Program, Replication, Stop, Version,
};

/// What was decoded can be encoded, and that decoded again.
const SCRIPT: &[u8] = b"
local which, data, format = ARGV[1], ARGV[2], ARGV[3]
if which == '0' then
    local value = cjson.decode(data)
    local fine, once = pcall(cjson.encode, value)
    assert(not fine or pcall(cjson.decode, once))
elseif which == '1' then
    cmsgpack.pack(cmsgpack.unpack(data))
elseif which == '2' then
    struct.unpack(format, data)
elseif which == '3' then
    struct.size(format)
else
    struct.pack(format, 1, 2, data, 3, data, 4)
end";

/// A server that has no commands.
struct Nothing;

impl Host for Nothing {
    fn note_returned_error(&mut self, _: &[u8], _: bool) {}

    fn call(&mut self, _: Args<'_>, _: Resp, _: &mut Output) -> Result<(), Stop> {
        Ok(())
    }

    fn log(&mut self, _: LogLevel, _: &[u8]) {}

    fn set_replication(&mut self, _: Replication) {}

    fn may_call(&mut self, _: Args<'_>) -> Option<bool> {
        None
    }

    fn check_time(&mut self) -> Result<(), Stop> {
        Ok(())
    }
}

thread_local! {
    static LUA: RefCell<Interpreter> = RefCell::new(Interpreter::new(&Version {
        text: "8.2.0".to_owned(),
        number: 0x0008_0200,
    }));
}

fuzz_target!(|data: &[u8]| {
    let _ = (Program::parse(data), Library::parse(data));
    let [which, data @ ..] = data else { return };
    let format = &data[..data.len().min(16)];
    let which = (which % 5).to_string();
    let arguments: OwnedArgs = [which.as_bytes(), data, format].into_iter().collect();
    let program = Program::parse(SCRIPT).expect("there is no shebang");
    let input = Input { keys: Args::default(), arguments: arguments.as_args(), seed: None };
    let mut output = Output::new();
    let result = LUA.with_borrow_mut(|lua| {
        let limits = Limits { memory: 64 << 20 };
        lua.run(&program, input, &mut Nothing, limits, &mut Reply::new(&mut output, Resp::Two))
    });
    if let Err(Fault::Error(error)) = result {
        let text = String::from_utf8_lossy(&error.text);
        assert!(!text.contains("assertion failed"), "{text}");
    }
});
