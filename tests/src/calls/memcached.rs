//! What tests send to Apus in memcached's protocols.
//!
//! A note has the protocol in the place of RESP's number: `T` for text, `M` for meta, `B` for
//! binary, whose commands are numbers. Its words are those of a line that may be options; of meta,
//! the letters of the flags. Data that follows a line is not looked at as far as the line tells how
//! long it is.

/// The length of a binary header, and what a request of the protocol begins with.
const HEADER: usize = 24;
const MAGIC: u8 = 0x80;

/// The notes of what was sent.
pub(super) fn notes(mut bytes: &[u8]) -> Vec<String> {
    let mut notes = Vec::new();
    while let Some(first) = bytes.first() {
        let consumed = match *first {
            MAGIC => packet(bytes, &mut notes),
            _ => line(bytes, &mut notes),
        };
        bytes = bytes.get(consumed..).unwrap_or_default();
    }
    notes
}

/// Notes a packet; how long it says it is.
fn packet(bytes: &[u8], notes: &mut Vec<String>) -> usize {
    let Some(header) = bytes.first_chunk::<HEADER>() else { return bytes.len() };
    notes.push(format!("B {:#04x} - -", header[1]));
    let body = u32::from_be_bytes([header[8], header[9], header[10], header[11]]);
    HEADER.saturating_add(body as usize)
}

/// Notes a line; how long it is with its data.
fn line(bytes: &[u8], notes: &mut Vec<String>) -> usize {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else { return bytes.len() };
    let Ok(line) = str::from_utf8(&bytes[..end]) else { return end + 2 };
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let Some((command, rest)) = words.split_first() else { return end + 2 };
    let is_command = command.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    if !is_command || command.len() > super::LONGEST {
        return end + 2;
    }
    let (flags, length) = match *command {
        "ms" => (rest.get(2..), rest.get(1)),
        "mg" | "md" | "ma" | "me" | "mn" => (rest.get(1..), None),
        "set" | "add" | "replace" | "append" | "prepend" | "cas" => (None, rest.get(3)),
        _ => (None, None),
    };
    let is_meta = matches!(*command, "mg" | "ms" | "md" | "ma" | "me" | "mn");
    let protocol = if is_meta { 'M' } else { 'T' };
    notes.push(format!("{protocol} {command} - -"));
    let letters = flags.unwrap_or_default().iter().filter_map(|flag| flag.chars().next());
    let letters = letters.filter(char::is_ascii_graphic);
    notes.extend(letters.map(|letter| format!("M {command} - {letter}")));
    let options = rest.iter().filter(|word| !is_meta && super::is_word(word.as_bytes()));
    notes.extend(options.map(|word| format!("T {command} - {word}")));
    let data = length.and_then(|length| length.parse::<usize>().ok()).map_or(0, |it| it + 2);
    (end + 2).saturating_add(data)
}

#[cfg(test)]
mod tests {
    use super::notes;

    #[test]
    fn requests_are_told_from_data() {
        let text =
            b"set a 0 0 9 noreply\r\nget b\r\n\r\n\r\nstats items\r\nms k 2 T0 q\r\nmn\r\n\r\n";
        let expected = [
            "T set - -",
            "T set - a",
            "T set - noreply",
            "T stats - -",
            "T stats - items",
            "M ms - -",
            "M ms - T",
            "M ms - q",
        ];
        assert_eq!(notes(text), expected);
        let mut packet = vec![0x80, 0x0a, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        packet.extend([0; 12]);
        packet.extend(b"kget a\r\n");
        assert_eq!(notes(&packet), ["B 0x0a - -", "T get - -", "T get - a"]);
        assert!(notes(b"\xff\xff").is_empty() && notes(b"\x80\x01").is_empty());
    }
}
