//! What the main thread took of the processors: that thread alone can ask, and leaves the answer
//! here.
//!
//! Invariant: while commands come the figure is a tenth of a second old at most.

use std::sync::Mutex;
use std::time::Duration;

use base::CpuTime;

static NOTED: Mutex<CpuTime> = Mutex::new(CpuTime { user: Duration::ZERO, system: Duration::ZERO });

/// To be called by the main thread, now and then.
pub fn note_cpu_time() {
    *NOTED.lock().expect("nothing here panics") = CpuTime::of_this_thread();
}

/// What the main thread took when it last said so.
pub fn cpu_time() -> CpuTime {
    *NOTED.lock().expect("nothing here panics")
}
