//! The arena against what its blocks must be: apart, aligned, counted, and given back.

use std::collections::HashMap;
use std::ptr::NonNull;
use std::sync::mpsc;

use base::random::Random;

use super::{
    CACHE_LINE, CLASSES, FIRST_BLOCK, PAGE_SIZE, SLAB_LIMIT, allocate, class_index, class_size,
    free, size_of_class, statistics,
};

struct Held(NonNull<u8>, usize, u8);

// SAFETY: a test's block is used by one thread at a time.
unsafe impl Send for Held {}

impl Held {
    fn new(size: usize, pattern: u8) -> Self {
        let block = allocate(size);
        // SAFETY: the block has `size` bytes and is ours.
        unsafe { block.as_ptr().write_bytes(pattern, size) };
        Self(block, size, pattern)
    }

    fn check_and_free(self) {
        let Self(block, size, pattern) = self;
        // SAFETY: written in `new`, freed nowhere else.
        unsafe {
            let bytes = std::slice::from_raw_parts(block.as_ptr(), size);
            assert!(bytes.iter().all(|&byte| byte == pattern), "blocks do not overlap");
            free(block, size);
        }
    }
}

#[test]
fn classes_hold_their_size_and_waste_at_most_an_eighth() {
    for size in 8..100_000 {
        let class = class_size(size);
        assert!(class >= size && class.is_multiple_of(8), "{size} -> {class}");
        assert!(size <= 128 || (class - size) * 8 < size, "{size} -> {class}");
        assert_eq!(class_size(class), class);
    }
}

#[test]
fn classes_are_numbered_without_gaps() {
    let mut last = None;
    for size in 8..=SLAB_LIMIT {
        let index = class_index(class_size(size));
        assert_eq!(size_of_class(index), class_size(size));
        assert!(last.is_none_or(|last| index == last || index == last + 1), "{size}");
        last = Some(index);
    }
    assert_eq!(last, Some(CLASSES - 1));
    for size in (8..=SLAB_LIMIT).map(class_size) {
        let tail = (PAGE_SIZE - FIRST_BLOCK) % size;
        assert!(tail * 10 < PAGE_SIZE, "{tail} bytes of a page are lost to blocks of {size}");
    }
}

#[test]
fn blocks_of_all_sizes_stay_apart_whoever_frees_them() {
    let (sender, receiver) = mpsc::channel::<Held>();
    std::thread::scope(|scope| {
        scope.spawn(move || receiver.into_iter().for_each(Held::check_and_free));
        for seed in 0..4 {
            let sender = sender.clone();
            scope.spawn(move || churn(seed, &sender));
        }
        drop(sender);
    });
}

/// Allocates and frees at random, some of it through another thread.
fn churn(seed: u64, elsewhere: &mpsc::Sender<Held>) {
    let mut random = Random::from_seed(seed);
    let mut held: Vec<Held> = Vec::new();
    for step in 0..40_000_u32 {
        if held.len() > 2000 || !held.is_empty() && random.next_u64() % 5 < 2 {
            let at = random.next_u64() as usize % held.len();
            let block = held.swap_remove(at);
            if step % 3 == 0 {
                elsewhere.send(block).unwrap();
            } else {
                block.check_and_free();
            }
        } else {
            let limit = if step % 50 == 0 { 10_000 } else { 300 };
            held.push(Held::new(1 + random.next_u64() as usize % limit, step as u8));
        }
    }
    held.into_iter().for_each(Held::check_and_free);
}

/// Other tests allocate at the same time, so this looks at one size that none of them uses.
#[test]
fn pages_fill_up_and_go_back() {
    const SIZE: usize = 3000;
    let per_page = (PAGE_SIZE - FIRST_BLOCK) / class_size(SIZE);
    let blocks: Vec<_> = (0..per_page * 20).map(|index| Held::new(SIZE, index as u8)).collect();
    let mut pages = HashMap::<usize, usize>::new();
    for block in &blocks {
        assert!(block.0.as_ptr().addr().is_multiple_of(8));
        *pages.entry(block.0.as_ptr().addr() / PAGE_SIZE).or_default() += 1;
    }
    assert!(pages.len() <= 21 && pages.values().all(|&used| used <= per_page));
    let full = statistics();
    assert!(full.used >= per_page * 20 * class_size(SIZE) && full.allocated >= full.used);
    blocks.into_iter().for_each(Held::check_and_free);
}

#[test]
fn whole_cache_lines_lie_on_cache_lines() {
    for size in (1..300).map(|lines| lines * CACHE_LINE) {
        let blocks = [0, 1, 2].map(|pattern| Held::new(size, pattern));
        assert!(blocks.iter().all(|block| block.0.as_ptr().addr().is_multiple_of(CACHE_LINE)));
        blocks.into_iter().for_each(Held::check_and_free);
    }
}
