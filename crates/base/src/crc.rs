//! The two checksums of the Redis formats: CRC-64/Jones (files, DUMP) and CRC-16/XMODEM (slots).
//!
//! Invariant: a sum is the same whichever way it was found.

#[cfg(target_arch = "x86_64")]
mod ffi;

/// Parts of one text that are summed side by side: each step of a sum waits for the one before.
const PARTS: usize = 4;

/// Texts from this length on are summed in parts.
const IN_PARTS_MIN: usize = 2048;

/// CRC-64 with the Jones polynomial, reflected, no inversion; `seed` is 0 or the sum so far.
pub fn crc64(seed: u64, bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        let (blocks, rest) = bytes.as_chunks();
        if let Some(words) = ffi::fold(seed, blocks) {
            let sum = words.into_iter().fold(0, |sum, word| next_word(sum, word.to_le_bytes()));
            return by_tables(sum, rest);
        }
    }
    by_tables(seed, bytes)
}

/// The sum, without instructions that not every processor has.
fn by_tables(seed: u64, mut bytes: &[u8]) -> u64 {
    let mut sum = seed;
    while bytes.len() >= IN_PARTS_MIN {
        // A power of two, which is quick to combine.
        let part = (bytes.len() / PARTS + 1).next_power_of_two() / 2;
        let (now, rest) = bytes.split_at(part * PARTS);
        sum = in_parts(sum, now, part);
        bytes = rest;
    }
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        sum = next_word(sum, *word);
    }
    for byte in rest {
        sum = CRC64[0][usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
    }
    sum
}

/// The sum of two texts in a row, by the sum of each alone and the length of the second.
pub fn crc64_combine(first: u64, second: u64, second_len: u64) -> u64 {
    let mut shifted = first;
    for (bit, power) in BYTE_POWERS.iter().enumerate() {
        if second_len >> bit & 1 != 0 {
            shifted = product(shifted, *power);
        }
    }
    shifted ^ second
}

fn in_parts(seed: u64, bytes: &[u8], part: usize) -> u64 {
    let (words, _) = bytes.as_chunks::<8>();
    let words_in_part = part / 8;
    let (first, rest) = words.split_at(words_in_part);
    let (second, rest) = rest.split_at(words_in_part);
    let (third, fourth) = rest.split_at(words_in_part);
    let mut sums = [seed, 0, 0, 0];
    for (((a, b), c), d) in first.iter().zip(second).zip(third).zip(fourth) {
        let [sum_a, sum_b, sum_c, sum_d] = sums;
        sums = [
            next_word(sum_a, *a),
            next_word(sum_b, *b),
            next_word(sum_c, *c),
            next_word(sum_d, *d),
        ];
    }
    let [first, others @ ..] = sums;
    others.into_iter().fold(first, |sum, next| crc64_combine(sum, next, part as u64))
}

/// The sum after eight more bytes.
#[inline]
fn next_word(sum: u64, word: [u8; 8]) -> u64 {
    let mixed = (sum ^ u64::from_le_bytes(word)).to_le_bytes();
    // Byte 0 is seven bytes away from the end of the word, byte 7 none.
    let mut sum = 0;
    for (index, byte) in mixed.iter().enumerate() {
        sum ^= CRC64[7 - index][usize::from(*byte)];
    }
    sum
}

/// The product of two polynomials modulo the one of CRC-64; the highest bit is the constant term.
const fn product(one: u64, other: u64) -> u64 {
    let (mut sum, mut multiple, mut bit) = (0, one, 0);
    while bit < 64 {
        // Without a branch, since the bits are as good as random.
        sum ^= multiple & (other << bit >> 63).wrapping_neg();
        multiple = multiple >> 1 ^ POLYNOMIAL_64 & (multiple & 1).wrapping_neg();
        bit += 1;
    }
    sum
}

/// CRC-16/XMODEM.
pub fn crc16(bytes: &[u8]) -> u16 {
    let mut sum = 0_u16;
    for byte in bytes {
        sum = CRC16[usize::from((sum >> 8) as u8 ^ byte)] ^ (sum << 8);
    }
    sum
}

/// Row `n` sums a byte that `n` zero bytes follow, so that eight bytes are summed at once.
static CRC64: [[u64; 256]; 8] = crc64_tables();

static CRC16: [u16; 256] = crc16_table();

/// Polynomial of CRC-64/Jones, the constant term highest.
const POLYNOMIAL_64: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();

/// What a sum is multiplied with when 2^index bytes follow.
static BYTE_POWERS: [u64; 64] = byte_powers();

const fn byte_powers() -> [u64; 64] {
    // x^8 for one byte; each is the square of the one before.
    let mut powers = [1 << (63 - 8); 64];
    let mut index = 1;
    while index < 64 {
        powers[index] = product(powers[index - 1], powers[index - 1]);
        index += 1;
    }
    powers
}

const fn crc64_tables() -> [[u64; 256]; 8] {
    let mut tables = [[0_u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL_64 } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut row = 1;
    while row < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[row - 1][byte];
            tables[row][byte] = tables[0][(before & 0xff) as usize] ^ (before >> 8);
            byte += 1;
        }
        row += 1;
    }
    tables
}

const fn crc16_table() -> [u16; 256] {
    const POLYNOMIAL: u16 = 0x1021;
    let mut table = [0_u16; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 0x8000 != 0 { (sum << 1) ^ POLYNOMIAL } else { sum << 1 };
            bit += 1;
        }
        table[byte] = sum;
        byte += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{IN_PARTS_MIN, by_tables, crc16, crc64, crc64_combine};
    use crate::random::Random;

    #[test]
    fn check_values() {
        assert_eq!(crc64(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(crc16(b"123456789"), 0x31c3);
        assert_eq!(crc64(0, b""), 0);
        assert_eq!(crc16(b""), 0);
    }

    #[test]
    fn a_sum_can_be_continued_anywhere() {
        let text = b"This is a test of the emergency broadcast system.";
        let whole = crc64(0, text);
        for at in 0..text.len() {
            assert_eq!(crc64(crc64(0, &text[..at]), &text[at..]), whole);
        }
    }

    #[test]
    fn sums_of_parts_give_the_sum_of_the_whole() {
        let mut random = Random::from_seed(7);
        let text: Vec<u8> = (0..5 * IN_PARTS_MIN).map(|_| random.next_u64() as u8).collect();
        // Byte by byte, which no part is summed in.
        let whole = text.iter().fold(0, |sum, byte| crc64(sum, &[*byte]));
        assert_eq!((crc64(0, &text), by_tables(0, &text)), (whole, whole));
        for at in [0, 1, 7, 8, IN_PARTS_MIN - 1, IN_PARTS_MIN, IN_PARTS_MIN + 1, 9999] {
            let (first, second) = text.split_at(at);
            assert_eq!(crc64(crc64(0, first), second), whole, "{at}");
            let second_len = second.len() as u64;
            assert_eq!(crc64_combine(crc64(0, first), crc64(0, second), second_len), whole, "{at}");
        }
    }
    #[test]
    fn the_way_does_not_show() {
        let mut random = Random::from_seed(8);
        let text: Vec<u8> = (0..700).map(|_| random.next_u64() as u8).collect();
        for len in 0..690 {
            let (seed, bytes) = (random.next_u64(), &text[len % 9..][..len]);
            let plain = bytes.iter().fold(seed, |sum, byte| by_tables(sum, &[*byte]));
            assert_eq!((crc64(seed, bytes), by_tables(seed, bytes)), (plain, plain), "{len}");
        }
    }
}
