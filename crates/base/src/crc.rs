//! The two checksums of the Redis formats: CRC-64/Jones (files, DUMP) and CRC-16/XMODEM (slots).

/// CRC-64 with the Jones polynomial, reflected, no inversion; `seed` is 0 or the sum so far.
pub fn crc64(seed: u64, bytes: &[u8]) -> u64 {
    let mut sum = seed;
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mixed = (sum ^ u64::from_le_bytes(*word)).to_le_bytes();
        // Byte 0 is seven bytes away from the end of the word, byte 7 none.
        sum = 0;
        for (index, byte) in mixed.iter().enumerate() {
            sum ^= CRC64[7 - index][usize::from(*byte)];
        }
    }
    for byte in rest {
        sum = CRC64[0][usize::from(sum as u8 ^ byte)] ^ (sum >> 8);
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

const fn crc64_tables() -> [[u64; 256]; 8] {
    const POLYNOMIAL: u64 = 0xad93_d235_94c9_35a9_u64.reverse_bits();
    let mut tables = [[0_u64; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ POLYNOMIAL } else { sum >> 1 };
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
    use super::{crc16, crc64};

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
}
