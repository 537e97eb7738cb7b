//! Base64 (RFC 4648), with padding.
//!
//! Invariant: what is decoded encodes to the same text again; any other text is refused.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// What stands for no digit in [`DIGITS`].
const NONE: u8 = 0xFF;

static DIGITS: [u8; 256] = {
    let mut digits = [NONE; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        digits[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    digits
};

/// The text of these bytes.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let word =
            (0..3).fold(0, |word, index| word << 8 | u32::from(*group.get(index).unwrap_or(&0)));
        for index in 0..4 {
            let digit = (word >> (18 - 6 * index)) as usize % 64;
            text.push(if index <= group.len() { char::from(ALPHABET[digit]) } else { '=' });
        }
    }
    text
}

/// Writes the bytes of a text into `buffer` and returns the used part; `None` if it is no base64
/// or has more bytes than the buffer.
#[must_use]
pub fn decode<'b>(text: &[u8], buffer: &'b mut [u8]) -> Option<&'b [u8]> {
    if !text.len().is_multiple_of(4) {
        return None;
    }
    let padding = text.iter().rev().take(2).take_while(|byte| **byte == b'=').count();
    let length = text.len() / 4 * 3 - padding;
    let target = buffer.get_mut(..length)?;
    let digits = &text[..text.len() - padding];
    for (group, bytes) in digits.chunks(4).zip(target.chunks_mut(3)) {
        let mut word = 0_u32;
        for index in 0..4 {
            let digit = group.get(index).map_or(0, |byte| DIGITS[usize::from(*byte)]);
            if digit == NONE {
                return None;
            }
            word = word << 6 | u32::from(digit);
        }
        let [_, decoded @ ..] = word.to_be_bytes();
        if decoded[bytes.len()..].iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.copy_from_slice(&decoded[..bytes.len()]);
    }
    Some(target)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::any;
    use proptest::{prop_assert_eq, proptest};

    use super::{decode, encode};

    #[test]
    fn the_rfc_s_own_examples() {
        let table = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
            ("foobar", "Zm9vYmFy"),
        ];
        for (plain, coded) in table {
            assert_eq!(encode(plain.as_bytes()), coded);
            assert_eq!(decode(coded.as_bytes(), &mut [0; 9]), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in
            ["Z", "Zg=", "Zg", "====", "Z===", "Zm9v====", "Zh==", "Zm9=", "Zm\n9", "Zg==Zg=="]
        {
            assert_eq!(decode(text.as_bytes(), &mut [0; 9]), None, "{text:?}");
        }
        assert_eq!(decode(b"Zm9v", &mut [0; 2]), None, "no room");
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(bytes: Vec<u8>, noise in any::<[u8; 4]>()) {
            let mut buffer = vec![0; bytes.len()];
            prop_assert_eq!(decode(encode(&bytes).as_bytes(), &mut buffer), Some(&bytes[..]));
            let mut room = [0; 3];
            if let Some(decoded) = decode(&noise, &mut room) {
                let again = encode(decoded);
                prop_assert_eq!(again.as_bytes(), &noise);
            }
        }
    }
}
