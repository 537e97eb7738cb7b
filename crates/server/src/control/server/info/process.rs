//! The section CPU: what the process and its main thread took of the processors.
//!
//! Invariant: where the system does not tell, the figure is zero.

use super::report::Report;
use crate::process_times;
use crate::server::Server;

pub(super) fn write_cpu(_: &Server, report: &mut Report) {
    let process = process_times::of_process();
    let main_thread = process_times::of_main_thread();
    let mut seconds = |name: &str, value: f64| report.field(name, format_args!("{value:.6}"));
    seconds("used_cpu_sys", process.system);
    seconds("used_cpu_user", process.user);
    seconds("used_cpu_sys_children", process.children_system);
    seconds("used_cpu_user_children", process.children_user);
    seconds("used_cpu_sys_main_thread", main_thread.system);
    seconds("used_cpu_user_main_thread", main_thread.user);
}
