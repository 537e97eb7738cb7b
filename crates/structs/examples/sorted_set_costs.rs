//! What a sorted set of a million members costs: bytes as the allocator was asked for them, and
//! nanoseconds of CPU per operation. `cargo run --release -p structs --example sorted_set_costs`

use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::atomic::{AtomicUsize, Ordering};

use base::Random;
use rustix::time::{ClockId, clock_gettime};
use structs::members::Text;
use structs::sorted_set::{ItemRef, SortedSet, SortedSetLimits};

const MEMBERS: u64 = 1_000_000;
const ROUNDS: u64 = 300_000;
const LIMITS: SortedSetLimits = SortedSetLimits { entries: 128, value_bytes: 64 };

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: all is left to the system's allocator; only sizes are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn member(number: u64) -> [u8; 16] {
    let mut bytes = *b"member:000000000";
    let mut rest = number;
    for digit in bytes[7..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    bytes
}

/// What this thread has computed so far, whatever else the machine does.
fn cpu_nanoseconds() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn time(name: &str, mut operation: impl FnMut(u64)) {
    let start = cpu_nanoseconds();
    (0..ROUNDS).for_each(&mut operation);
    println!("  {name}: {:.0} ns", (cpu_nanoseconds() - start) as f64 / ROUNDS as f64);
}

fn measure(name: &str, score: impl Fn(u64) -> f64) {
    println!("{name}");
    let mut random = Random::from_seed(7);
    let before = ALLOCATED.load(Ordering::Relaxed);
    let mut set = SortedSet::default();
    let start = cpu_nanoseconds();
    for _ in 0..MEMBERS * 2 {
        let number = random.below(MEMBERS);
        set.insert(Text::Bytes(&member(number)), score(number), &LIMITS);
    }
    (0..MEMBERS).for_each(|number| {
        set.insert(Text::Bytes(&member(number)), score(number), &LIMITS);
    });
    let nanoseconds = (cpu_nanoseconds() - start) as f64 / (3 * MEMBERS) as f64;
    println!("  filling, ZADD of a new or the same: {nanoseconds:.0} ns");
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before;
    println!("  memory: {:.1} bytes a member", bytes as f64 / MEMBERS as f64);
    time("ZADD of another score", |round| {
        let number = random.below(MEMBERS);
        set.insert(Text::Bytes(&member(number)), score(number + round), &LIMITS);
    });
    let read = set.borrow();
    time("ZSCORE", |_| {
        black_box(read.score(&member(random.below(MEMBERS))));
    });
    time("ZRANK", |_| {
        black_box(read.rank(&member(random.below(MEMBERS))));
    });
    time("ZRANGE of 10", |_| {
        let first = random.below(MEMBERS);
        let lens = read.items(first..first + 10).map(|item: ItemRef<'_>| item.member.len());
        black_box(lens.sum::<usize>());
    });
    let (mut cursor, mut told) = (0, 0);
    let start = cpu_nanoseconds();
    loop {
        let (next, step) = read.scan(cursor, 10);
        told += step.len() as u64;
        cursor = next;
        if cursor == 0 {
            break;
        }
    }
    let nanoseconds = (cpu_nanoseconds() - start) as f64 / told as f64;
    println!("  ZSCAN in steps of 10: {nanoseconds:.0} ns a member, {told} members");
    time("remove", |round| {
        set.remove(&member(round * 3));
    });
}

fn main() {
    let scattered = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 40);
    measure("different scores", |number| scattered(number) as f64);
    measure("100 scores", |number| (scattered(number) % 100) as f64);
    measure("one score", |_| 0.0);
}
