//! The section CPU: what the process and its main thread took of the processors.
//!
//! Invariant: where the system does not tell, the figure is zero.

use std::time::Duration;

use base::CpuTime;
use engine::runtime::main_thread;

use super::info_text::InfoText;
use crate::server::Server;

pub(super) fn write_cpu(_: &Server, report: &mut InfoText) {
    let mut seconds = |name: &str, time: Duration| {
        report.field(name, format_args!("{:.6}", time.as_secs_f64()));
    };
    for (whose, CpuTime { user, system }) in [
        ("", CpuTime::of_process()),
        ("_children", CpuTime::of_children()),
        ("_main_thread", main_thread::cpu_time()),
    ] {
        seconds(&format!("used_cpu_sys{whose}"), system);
        seconds(&format!("used_cpu_user{whose}"), user);
    }
}
