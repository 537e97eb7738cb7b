//! The binary: `apus` is the server, `apus bench` the load generator, `apus check` looks whether
//! files can be loaded.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use persist::check;
use persist::storage::Disk;

#[global_allocator]
static ALLOCATOR: server::Counted<mimalloc::MiMalloc> = server::Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments.next_if(|word| word == "bench").is_some() {
        return bench::run(arguments);
    }
    if arguments.next_if(|word| word == "check").is_some() {
        let is_well = check::run(arguments, &Disk, &mut std::io::stdout());
        return if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    server::run(arguments)
}
