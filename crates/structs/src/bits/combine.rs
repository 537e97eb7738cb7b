//! Byte strings combined bit by bit, block by block. A source that ends early reads as zeros.

/// Bytes combined at a time; chunks may end anywhere within.
pub const BLOCK: usize = 4096;

/// How bits of the same offset are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Set in all.
    And,
    /// Set in any.
    Or,
    /// Set in an odd number of sources.
    Xor,
    /// Clear in the only source.
    Not,
    /// Set in the first, in none of the others.
    Diff,
    /// Set in any but the first, and not in the first.
    Diff1,
    /// Set in the first and in any of the others.
    AndOr,
    /// Set in exactly one.
    One,
}

/// Combines `sources` byte strings, of which there is at least one, into `len` bytes.
///
/// `chunk_at` gives the bytes of a source that lie contiguous from an offset on, empty only at its
/// end; `write` takes the result block by block with its offset.
pub fn combine<'a>(
    operation: Operation,
    sources: usize,
    len: usize,
    chunk_at: impl Fn(usize, usize) -> &'a [u8],
    mut write: impl FnMut(usize, &[u8]),
) {
    let mut block = Block { bits: [0; BLOCK], several: [0; BLOCK] };
    for offset in (0..len).step_by(BLOCK) {
        let block_len = BLOCK.min(len - offset);
        block.combine(operation, sources, block_len, |source, within| {
            let chunk = chunk_at(source, offset + within);
            &chunk[..chunk.len().min(block_len - within)]
        });
        write(offset, &block.bits[..block_len]);
    }
}

struct Block {
    bits: [u8; BLOCK],
    /// What is set in more than one source.
    several: [u8; BLOCK],
}

impl Block {
    fn combine<'a>(
        &mut self,
        operation: Operation,
        sources: usize,
        len: usize,
        chunk_at: impl Fn(usize, usize) -> &'a [u8],
    ) {
        let bits = &mut self.bits[..len];
        bits.fill(0);
        let first = |bits: &mut [u8], with: fn(u8, u8) -> u8| fold(bits, &chunk_at, 0, with);
        let others = |bits: &mut [u8], with: fn(u8, u8) -> u8| {
            for source in 1..sources {
                fold(bits, &chunk_at, source, with);
            }
        };
        match operation {
            Operation::And => {
                first(bits, |_, bits| bits);
                others(bits, |so_far, bits| so_far & bits);
            }
            Operation::Or => {
                first(bits, |_, bits| bits);
                others(bits, |so_far, bits| so_far | bits);
            }
            Operation::Xor => {
                first(bits, |_, bits| bits);
                others(bits, |so_far, bits| so_far ^ bits);
            }
            Operation::Not => first(bits, |_, bits| !bits),
            Operation::Diff => {
                others(bits, |so_far, bits| so_far | bits);
                first(bits, |others, first| first & !others);
            }
            Operation::Diff1 => {
                others(bits, |so_far, bits| so_far | bits);
                first(bits, |others, first| others & !first);
            }
            Operation::AndOr => {
                others(bits, |so_far, bits| so_far | bits);
                first(bits, |others, first| others & first);
            }
            Operation::One => {
                let several = &mut self.several[..len];
                several.fill(0);
                for source in 0..sources {
                    each_chunk(len, &chunk_at, source, |at, chunk| {
                        let several = &mut several[at..at + chunk.len()];
                        let bits = &mut bits[at..at + chunk.len()];
                        for ((several, bits), new) in several.iter_mut().zip(bits).zip(chunk) {
                            *several |= *bits & new;
                            *bits |= new;
                        }
                    });
                }
                for (bits, several) in bits.iter_mut().zip(several) {
                    *bits &= !*several;
                }
            }
        }
    }
}

/// Combines a block with a source. Inlined, so that each operation has its own tight loop.
#[inline(always)]
fn fold<'a>(
    bits: &mut [u8],
    chunk_at: &impl Fn(usize, usize) -> &'a [u8],
    source: usize,
    with: impl Fn(u8, u8) -> u8,
) {
    let len = bits.len();
    let end = each_chunk(len, chunk_at, source, |at, chunk| {
        for (bits, new) in bits[at..].iter_mut().zip(chunk) {
            *bits = with(*bits, *new);
        }
    });
    for bits in &mut bits[end..] {
        *bits = with(*bits, 0);
    }
}

/// Shows the chunks of a source within the block, and tells where it ends.
#[inline(always)]
fn each_chunk<'a>(
    len: usize,
    chunk_at: &impl Fn(usize, usize) -> &'a [u8],
    source: usize,
    mut show: impl FnMut(usize, &[u8]),
) -> usize {
    let mut at = 0;
    while at < len {
        let chunk = chunk_at(source, at);
        if chunk.is_empty() {
            break;
        }
        show(at, chunk);
        at += chunk.len();
    }
    at
}
