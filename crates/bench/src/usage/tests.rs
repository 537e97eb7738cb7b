//! The clocks of processes, read of this very process.

use std::hint::black_box;
use std::time::Duration;

use super::Watch;

/// Computes until this process has spent `time` on a processor.
fn burn(time: Duration) {
    let before = super::own_cpu();
    let mut number = 1_u64;
    while super::own_cpu() - before < time {
        for _ in 0..10_000 {
            number = black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
    }
}

#[test]
fn work_of_a_process_is_seen_and_idleness_is_not() {
    let own = std::process::id();
    let watch = Watch::of(&[own]);
    burn(Duration::from_millis(300));
    let (server, generator) = watch.end();
    let server = server.expect("this process is alive");
    assert_eq!(server.pid, own);
    assert!(server.rss > 100_000, "{server:?}");
    // Other tests of this process may have worked too, so there is no upper bound but time.
    assert!(generator >= Duration::from_millis(300), "{generator:?}");
    assert!(server.user + server.system >= Duration::from_millis(280), "{server:?}");
}

#[test]
fn several_processes_are_summed_under_the_first() {
    let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let watch = Watch::of(&[child.id(), std::process::id()]);
    // Time on a processor is told of late while other threads of the process run.
    burn(Duration::from_millis(200));
    let alone = Watch::of(&[child.id()]);
    let (both, _) = watch.end();
    let (child_only, _) = alone.end();
    child.kill().expect("it is ours");
    child.wait().expect("it was started");
    let (both, child_only) = (both.expect("both live"), child_only.expect("it lives"));
    assert_eq!(both.pid, child_only.pid);
    assert!(both.rss > child_only.rss);
    assert!(both.user + both.system >= Duration::from_millis(40), "{both:?}");
    assert!(child_only.user + child_only.system < Duration::from_millis(40), "{child_only:?}");
}

#[test]
fn a_process_that_is_gone_has_no_figures() {
    let mut child = std::process::Command::new("true").spawn().expect("true runs");
    let watch = Watch::of(&[child.id()]);
    child.wait().expect("it was started");
    assert!(watch.end().0.is_none());
    assert!(Watch::of(&[child.id()]).end().0.is_none());
    assert!(Watch::of(&[]).end().0.is_none());
}
