//! The binary: `apus` is the server, `apus bench` the load generator.
#![forbid(unsafe_code)]

use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|word| word == "bench").is_some() {
        return bench::run(arguments);
    }
    server::run(arguments)
}
