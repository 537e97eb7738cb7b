//! The binary: `apus` is the server, `apus bench` the load generator, `apus check` looks whether
//! files can be loaded. `apus memcached`, or the binary under the name `memcached`, is the server
//! with the command line of memcached.
#![deny(unsafe_code)]

mod ffi;

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use persist::check;
use persist::storage::Disk;

#[global_allocator]
static ALLOCATOR: server::Counted<mimalloc::MiMalloc> = server::Counted(mimalloc::MiMalloc);

fn main() -> ExitCode {
    server::allocate_by(server::Allocator {
        give_back: ffi::give_back,
        give_back_at_once: ffi::give_back_at_once,
    });
    let mut arguments = std::env::args_os().peekable();
    let program = arguments.next().unwrap_or_default();
    let is_memcached = Path::new(&program).file_name() == Some(OsStr::new("memcached"));
    if arguments.next_if(|word| word == "memcached").is_some() || is_memcached {
        return server::run_as_memcached(arguments);
    }
    if arguments.next_if(|word| word == "bench").is_some() {
        return bench::run(arguments);
    }
    if arguments.next_if(|word| word == "check").is_some() {
        let (mut answers, mut out) = (std::io::stdin().lock(), std::io::stdout());
        let operator = check::Operator { answers: &mut answers, out: &mut out };
        let is_well = check::run(arguments, &Disk, operator);
        return if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    server::run(arguments)
}
