//! The arena against what its blocks must be: apart, aligned, counted, and given back.
//!
//! All tests share the one arena, so each looks at sizes of its own, and nobody relies on marks
//! that another's compaction may take away.

use std::collections::{HashMap, HashSet};
use std::ptr::NonNull;
use std::sync::mpsc;

use base::random::Random;

use super::classes::{
    CACHE_LINE, CLASSES, SLAB_LIMIT, blocks_of, class_index, class_size, page_size, size_of_class,
};
use super::{Marking, allocate, free, relocate, statistics, unmark};

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

    /// Offers the block to compaction.
    fn offer(&mut self) {
        // SAFETY: the block is ours, and its old place is forgotten.
        if let Some(moved) = unsafe { relocate(self.0, self.1) } {
            self.0 = moved;
        }
    }

    /// The page of the block, by number.
    fn page(&self) -> usize {
        self.0.as_ptr().addr() / page_size(class_size(self.1))
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
fn a_class_holds_its_sizes_and_costs_none_of_them_a_block_of_the_page() {
    for size in 1..100_000_usize {
        let (class, words) = (class_size(size), size.next_multiple_of(8));
        assert!(class >= size && class.is_multiple_of(8), "{size} -> {class}");
        assert_eq!(class_size(class), class);
        assert!(size > 512 || class == words, "{size} -> {class}");
        assert!(size <= SLAB_LIMIT || (class - size) * 16 < size, "{size} -> {class}");
        if size <= SLAB_LIMIT {
            assert_eq!(page_size(class), page_size(size));
            assert_eq!(blocks_of(class), blocks_of(words), "{size} -> {class}");
            assert!(blocks_of(class) >= 7, "{size} -> {class}");
        }
    }
}

#[test]
fn classes_are_numbered_without_gaps() {
    let mut last = None;
    for size in 1..=SLAB_LIMIT {
        let index = class_index(size);
        assert_eq!(
            (index, size_of_class(index)),
            (class_index(class_size(size)), class_size(size))
        );
        assert!(last.is_none_or(|last| index == last || index == last + 1), "{size}");
        last = Some(index);
    }
    assert_eq!(last, Some(CLASSES - 1));
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
        if step % 4000 == 3999 {
            compact(&mut held);
        }
        if held.len() > 2000 || !held.is_empty() && random.next_u64() % 5 < 2 {
            let at = random.next_u64() as usize % held.len();
            let block = held.swap_remove(at);
            if step % 3 == 0 {
                elsewhere.send(block).unwrap();
            } else {
                block.check_and_free();
            }
        } else {
            let limit = if step % 50 == 0 { 100_000 } else { 300 };
            held.push(Held::new(1 + random.next_u64() as usize % limit, step as u8));
        }
    }
    held.into_iter().for_each(Held::check_and_free);
}

/// One pass over blocks, on which their owner may go on as before.
fn compact(held: &mut [Held]) {
    let mut marking = Marking::default();
    while marking.step() {}
    held.iter_mut().for_each(Held::offer);
    unmark();
}

fn pages_of(held: &[Held]) -> usize {
    held.iter().map(Held::page).collect::<HashSet<_>>().len()
}

#[test]
fn what_random_removals_left_sparse_is_packed_again() {
    for (size, count) in [(333, 20_000), (3300, 3000), (9000, 1500), (60_000, 700)] {
        let per_page = blocks_of(class_size(size));
        let mut random = Random::from_seed(size as u64);
        let mut held: Vec<_> = (0..count).map(|index| Held::new(size, index as u8)).collect();
        for _ in 0..count - count / 10 {
            let at = random.next_u64() as usize % held.len();
            held.swap_remove(at).check_and_free();
        }
        let sparse = pages_of(&held);
        let dense = (held.len() / per_page) * 16 / 15 + 3;
        assert!(sparse > dense, "{sparse} pages of {size}");
        // Another test may unmark what this one marked.
        let mut passes = 0;
        while pages_of(&held) > dense {
            compact(&mut held);
            passes += 1;
            assert!(passes < 100, "{} pages of {size}", pages_of(&held));
        }
        held.into_iter().for_each(Held::check_and_free);
    }
}

/// Other tests allocate at the same time, so this looks at one size that none of them uses.
#[test]
fn pages_fill_up_and_go_back() {
    const SIZE: usize = 3000;
    let per_page = blocks_of(class_size(SIZE));
    let blocks: Vec<_> = (0..per_page * 20).map(|index| Held::new(SIZE, index as u8)).collect();
    let mut pages = HashMap::<usize, usize>::new();
    for block in &blocks {
        assert!(block.0.as_ptr().addr().is_multiple_of(8));
        *pages.entry(block.page()).or_default() += 1;
    }
    assert!(pages.len() <= 21 && pages.values().all(|&used| used <= per_page));
    let full = statistics();
    assert!(full.used >= per_page * 20 * class_size(SIZE) && full.allocated >= full.used);
    blocks.into_iter().for_each(Held::check_and_free);
}

#[test]
fn whole_cache_lines_lie_on_cache_lines_in_classes_of_their_own() {
    for size in (1..1200).map(|lines| lines * CACHE_LINE).filter(|size| class_size(*size) == *size)
    {
        let blocks = [0, 1, 2].map(|pattern| Held::new(size, pattern));
        assert!(blocks.iter().all(|block| block.0.as_ptr().addr().is_multiple_of(CACHE_LINE)));
        blocks.into_iter().for_each(Held::check_and_free);
    }
}
