//! The directives whose values have a form of their own, and the checks of texts that are more than
//! text.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::sync::Arc;

use base::io_error_text::strerror;
use base::number::{parse_f64, parse_i64};
use base::quote::quote;

use crate::save_schedule::Schedule;

use super::kind::{Kind, PreviousValue, Special, Value, ValueError, parse_bytes, parse_choice};

/// `save`: pairs of seconds and changes, kept as text; no pair saves never.
pub(super) const SAVE: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: parse_save,
    show: show_text,
    lines: save_lines,
});

/// `client-output-buffer-limit`: hard limit, soft limit and soft seconds of each client class.
pub(super) const OUTPUT_BUFFER_LIMITS: Kind = Kind::Special(&Special {
    words: true,
    width: 9,
    parse: parse_output_buffer_limits,
    show: |value| output_buffer_limits(value).join(" ").into(),
    lines: output_buffer_limits,
});

/// `oom-score-adj-values`: the score of a primary, of a replica and of a child.
pub(super) const OOM_SCORES: Kind = Kind::Special(&Special {
    words: true,
    width: 3,
    parse: parse_oom_scores,
    show: |value| show_numbers(value).into(),
    lines: |value| vec![show_numbers(value)],
});

/// `notify-keyspace-events`: event classes as a bit set, bits as in [`KEY_EVENT_LETTERS`].
pub(super) const KEY_EVENTS: Kind = Kind::Special(&Special {
    words: false,
    width: 1,
    parse: parse_key_events,
    show: |value| show_key_events(value, b"noc").into(),
    lines: |value| vec![quote(show_key_events(value, b"").as_bytes())],
});

/// `latency-tracking-info-percentiles`: numbers from 0 to 100, kept as text.
pub(super) const PERCENTILES: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: parse_percentiles,
    show: show_text,
    lines: text_line,
});

/// `bind`: addresses, kept as text; a leading `-` forgives one that the machine has not.
pub(super) const BIND: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: parse_bind,
    show: show_text,
    lines: text_line,
});

/// `replicaof`: host and port, or nothing, kept as text. A host may have blanks; the port is what
/// comes behind the last one.
pub(super) const REPLICAOF: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: parse_replicaof,
    show: show_text,
    // As in Redis, nothing is said where there is no primary.
    lines: |value| match split_primary(value.bytes()) {
        Some((host, port)) => vec![format!("{} {port}", file_word(host))],
        None => Vec::new(),
    },
});

/// The host and the port in what `replicaof` has.
pub(super) fn split_primary(text: &[u8]) -> Option<(&[u8], u16)> {
    let blank = text.iter().rposition(|byte| *byte == b' ')?;
    let port = parse_i64(&text[blank + 1..]).and_then(|port| u16::try_from(port).ok())?;
    Some((&text[..blank], port))
}

/// Words that are kept as they come.
pub(super) const ANY_WORDS: Kind = Kind::Special(&Special {
    words: true,
    width: 0,
    parse: |words, _| Ok(Value::text(words.join(&b' '))),
    show: show_text,
    lines: text_line,
});

/// `yes` or `no`, as KeyDB has it also `true` or `false`.
pub(super) const YES_OR_TRUE: Kind = Kind::Special(&Special {
    words: false,
    width: 1,
    parse: parse_yes_or_true,
    show: |value| Kind::Bool.show(value),
    lines: |value| Kind::Bool.lines(value),
});

/// `shutdown-on-sigterm`: words of [`SHUTDOWN_WORDS`] as a bit set.
pub(super) const SHUTDOWN: Kind = Kind::Special(&Special {
    words: true,
    width: 1,
    parse: parse_shutdown,
    show: |value| show_shutdown(value).into(),
    lines: |value| vec![show_shutdown(value)],
});

/// The words of `shutdown-on-sigterm`; `default` is no bit, the others one each in this order.
pub(super) const SHUTDOWN_WORDS: &[&str] =
    &["default", "save", "nosave", "now", "force", "safe", "failover"];

/// The event classes that `A` stands for, then those that it does not.
pub(super) const KEY_EVENT_LETTERS: &[u8] = b"g$lshzxetdanocKEmSTIV";

const KEY_EVENTS_OF_A: &[u8] = b"g$lshzxetda";

const CLIENT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// A directory, stored as an absolute path.
pub(super) const DIRECTORY: Kind = Kind::Text(|text| {
    let path = Path::new(std::ffi::OsStr::from_bytes(text));
    let found = path.canonicalize().map_err(|error| error_text(&error))?;
    if !found.is_dir() {
        return Err(ValueError::Borrowed("Not a directory"));
    }
    Ok(found.into_os_string().into_vec().into())
});

/// The snapshot's file name.
pub(super) const DUMP_NAME: Kind =
    Kind::Text(|text| plain_name(text, "", "dbfilename can't be a path, just a filename"));

/// Minutes in the words of crontab; an empty text names none.
pub(super) const SCHEDULE: Kind = Kind::Text(|text| {
    let parsed = str::from_utf8(text).ok().and_then(Schedule::parse);
    if text.is_empty() || parsed.is_some() {
        return Ok(text.into());
    }
    Err(ValueError::Borrowed("argument must be a cron expression of five fields"))
});

/// A file with its kind before it: `rdb:PATH` or `aof:PATH`; an empty text names none.
pub(super) const PRELOADED: Kind = Kind::Text(|text| {
    let has_kind = text.starts_with(b"rdb:") || text.starts_with(b"aof:");
    if text.is_empty() || has_kind && text.len() > KIND_LEN {
        return Ok(text.into());
    }
    Err(ValueError::Borrowed("argument must be rdb:<path> or aof:<path of a manifest>"))
});

/// The length of `rdb:`.
const KIND_LEN: usize = 4;

/// The journal's file name.
pub(super) const APPEND_NAME: Kind = Kind::Text(|text| {
    plain_name(
        text,
        "appendfilename can't be empty",
        "appendfilename can't be a path, just a filename",
    )
});

/// The journal's directory.
pub(super) const APPEND_DIRECTORY: Kind = Kind::Text(|text| {
    plain_name(
        text,
        "appenddirname can't be empty",
        "appenddirname can't be a path, just a dirname",
    )
});

/// The directory of backups.
pub(super) const BACKUP_DIRECTORY: Kind = Kind::Text(|text| {
    plain_name(
        text,
        "backupdirname can't be empty",
        "backupdirname can't be a path, just a dirname",
    )
});

/// A host name to announce.
pub(super) const HOSTNAME: Kind = Kind::Text(|text| {
    if text.len() >= 256 {
        return Err(ValueError::Borrowed("Hostnames must be less than 256 characters"));
    }
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if !text.iter().all(legal) {
        return Err(ValueError::Borrowed(
            "Hostnames may only contain alphanumeric characters, hyphens or dots",
        ));
    }
    Ok(text.into())
});

/// A name for people, or none: of what every server of a cluster reads back from its file of nodes.
pub(super) const NODENAME: Kind = Kind::Text(|text| {
    let legal = |byte: &u8| byte.is_ascii_alphanumeric() || b"-./_`".contains(byte);
    if text.len() >= 256 || !text.iter().all(legal) {
        let why = "Announced human node name contained invalid character";
        return Err(ValueError::Borrowed(why));
    }
    Ok(text.into())
});

/// An IPv4 address to announce, or none.
pub(super) const IPV4: Kind = Kind::Text(|text| address::<Ipv4Addr>(text, "Invalid IPv4 address"));

/// An IPv6 address to announce, or none.
pub(super) const IPV6: Kind = Kind::Text(|text| address::<Ipv6Addr>(text, "Invalid IPv6 address"));

/// An address to announce on the bus, which knows no names; or none.
pub(super) const IP: Kind = Kind::Text(|text| address::<IpAddr>(text, "Invalid IP address"));

/// The process title's template: variables in braces.
pub(super) const TITLE_TEMPLATE: Kind = Kind::Text(|text| {
    const VARIABLES: [&[u8]; 7] = [
        b"title",
        b"listen-addr",
        b"server-mode",
        b"port",
        b"tls-port",
        b"unixsocket",
        b"config-file",
    ];
    let known = text.split(|byte| *byte == b'{').skip(1).all(|piece| {
        let end = piece.iter().position(|byte| *byte == b'}');
        end.is_some_and(|end| VARIABLES.contains(&&piece[..end]))
    });
    if text.is_empty() || !known {
        return Err(ValueError::Borrowed(
            "template format is invalid or contains unknown variables",
        ));
    }
    Ok(text.into())
});

/// A version: three numbers below 256, as scripts are told them in a byte each.
pub(super) const VERSION: Kind = Kind::Text(|text| {
    let parts: Vec<&[u8]> = text.split(|byte| *byte == b'.').collect();
    let is_number = |part: &&[u8]| parse_i64(part).is_some_and(|number| (0..256).contains(&number));
    if parts.len() == 3 && parts.iter().all(is_number) {
        return Ok(text.into());
    }
    Err(ValueError::Borrowed("argument must be a version such as 8.2.3"))
});

/// A locale to compare text by; texts are compared by their bytes here, as the C locale does.
pub(super) const LOCALE: Kind = Kind::Text(|text| match text {
    b"" | b"C" | b"POSIX" | b"C.UTF-8" | b"C.utf8" => Ok(text.into()),
    _ => Err(ValueError::Borrowed("Invalid locale name")),
});

/// `tls-dh-params-file`: a file that nothing here would follow.
pub(super) const NO_DH_PARAMETERS: Kind = Kind::Text(|text| match text {
    b"" => Ok(text.into()),
    _ => Err(ValueError::Borrowed(
        "Diffie-Hellman parameters are not used: keys are exchanged by elliptic curves, which \
         tls-groups names; leave it out",
    )),
});

/// What the system says of a failed call, without the error's number.
pub(super) fn error_text(error: &std::io::Error) -> ValueError {
    strerror(error).into()
}

fn plain_name(
    text: &[u8],
    empty: &'static str,
    path: &'static str,
) -> Result<Arc<[u8]>, ValueError> {
    if text.is_empty() && !empty.is_empty() {
        return Err(ValueError::Borrowed(empty));
    }
    if text.contains(&b'/') || text == b"." || text == b".." {
        return Err(ValueError::Borrowed(path));
    }
    Ok(text.into())
}

fn address<A: std::str::FromStr>(
    text: &[u8],
    fault: &'static str,
) -> Result<Arc<[u8]>, ValueError> {
    let parsed = std::str::from_utf8(text).ok().and_then(|text| text.parse::<A>().ok());
    if text.is_empty() || parsed.is_some() { Ok(text.into()) } else { Err(fault.into()) }
}

pub(super) fn show_text(value: &Value) -> Vec<u8> {
    value.bytes().into()
}

/// Words on one line; each is quoted only where it must be, for none can say nothing.
pub(super) fn text_line(value: &Value) -> Vec<String> {
    let words = value.bytes().split(|byte| *byte == b' ');
    vec![words.map(file_word).collect::<Vec<_>>().join(" ")]
}

pub(super) fn file_word(word: &[u8]) -> String {
    match std::str::from_utf8(word) {
        Ok(plain) if !plain.is_empty() && plain.bytes().all(is_plain) => plain.to_owned(),
        _ => quote(word),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\' | b'#')
}

fn show_numbers(value: &Value) -> String {
    value.numbers().iter().map(i64::to_string).collect::<Vec<_>>().join(" ")
}

fn parse_save(words: &[&[u8]], standing: PreviousValue<'_>) -> Result<Value, ValueError> {
    const INVALID: ValueError = ValueError::Borrowed("Invalid save parameters");
    if matches!(words, [] | [b""]) {
        return Ok(Value::text(*b""));
    }
    let (pairs, []) = words.as_chunks::<2>() else { return Err(INVALID) };
    let mut texts = Vec::new();
    if standing.by_earlier_line && !standing.value.bytes().is_empty() {
        texts.push(String::from_utf8_lossy(standing.value.bytes()).into_owned());
    }
    for [seconds, changes] in pairs {
        let seconds = parse_i64(seconds).filter(|seconds| *seconds >= 1).ok_or(INVALID)?;
        let changes = parse_i64(changes).filter(|changes| *changes >= 0).ok_or(INVALID)?;
        texts.push(format!("{seconds} {changes}"));
    }
    Ok(Value::text(texts.join(" ").into_bytes()))
}

fn save_lines(value: &Value) -> Vec<String> {
    let text = String::from_utf8_lossy(value.bytes());
    let numbers: Vec<&str> = text.split_ascii_whitespace().collect();
    if numbers.is_empty() {
        return vec![quote(b"")];
    }
    numbers.chunks(2).map(|pair| pair.join(" ")).collect()
}

fn parse_output_buffer_limits(
    words: &[&[u8]],
    standing: PreviousValue<'_>,
) -> Result<Value, ValueError> {
    const FAULTY: ValueError = ValueError::Borrowed(
        "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
    );
    let (groups, []) = words.as_chunks::<4>() else {
        return Err(ValueError::Borrowed(
            "Wrong number of arguments in buffer limit configuration.",
        ));
    };
    let mut numbers = standing.value.numbers().to_vec();
    // The value before the default was read.
    numbers.resize(3 * CLIENT_CLASSES.len(), 0);
    for [class, hard, soft, seconds] in groups {
        let class = if class.eq_ignore_ascii_case(b"replica") { b"slave" } else { *class };
        let class = parse_choice(class, &CLIENT_CLASSES).map_err(|_| {
            ValueError::Borrowed("Invalid client class specified in buffer limit configuration.")
        })?;
        let bytes = |text| parse_bytes(text).and_then(|bytes| i64::try_from(bytes).ok());
        let limits = [
            bytes(hard).ok_or(FAULTY)?,
            bytes(soft).ok_or(FAULTY)?,
            parse_i64(seconds).filter(|seconds| *seconds >= 0).ok_or(FAULTY)?,
        ];
        let place = 3 * usize::try_from(class).expect("a place in CLIENT_CLASSES");
        numbers[place..place + 3].copy_from_slice(&limits);
    }
    Ok(Value::Numbers(numbers))
}

fn output_buffer_limits(value: &Value) -> Vec<String> {
    let limits = value.numbers().chunks_exact(3);
    CLIENT_CLASSES
        .iter()
        .zip(limits)
        .map(|(class, limits)| format!("{class} {} {} {}", limits[0], limits[1], limits[2]))
        .collect()
}

fn parse_oom_scores(words: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    if words.len() != 3 {
        return Err(ValueError::Borrowed("wrong number of arguments"));
    }
    let scores: Option<Vec<i64>> = words
        .iter()
        .map(|word| parse_i64(word).filter(|score| (-2000..=2000).contains(score)))
        .collect();
    scores.map(Value::Numbers).ok_or(ValueError::Borrowed(
        "Invalid oom-score-adj-values, elements must be between -2000 and 2000.",
    ))
}

fn parse_key_events(arguments: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    let letters = arguments.first().copied().unwrap_or_default();
    let mut flags = 0;
    for letter in letters {
        flags |= match letter {
            b'A' => key_event_bits(KEY_EVENTS_OF_A),
            letter if KEY_EVENT_LETTERS.contains(letter) => key_event_bits(&[*letter]),
            _ => {
                return Err(ValueError::Borrowed(
                    "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.",
                ));
            }
        };
    }
    Ok(Value::number(flags))
}

/// The letters of the set event classes; beside an `A`, those of `unsaid` are left out: CONFIG GET
/// does not say them in Redis, but a file must.
fn show_key_events(value: &Value, unsaid: &[u8]) -> String {
    let flags = value.numbers().first().copied().unwrap_or_default();
    let all = key_event_bits(KEY_EVENTS_OF_A);
    let mut text = String::new();
    let mut said = flags;
    if flags & all == all {
        text.push('A');
        said &= !all & !key_event_bits(unsaid);
    }
    for letter in KEY_EVENT_LETTERS {
        if said & key_event_bits(&[*letter]) != 0 {
            text.push(char::from(*letter));
        }
    }
    text
}

/// The bits of the event classes of `letters`.
pub(super) fn key_event_bits(letters: &[u8]) -> i64 {
    let is_asked = |letter: &u8| letters.contains(letter);
    KEY_EVENT_LETTERS
        .iter()
        .enumerate()
        .filter(|(_, letter)| is_asked(letter))
        .fold(0, |bits, (place, _)| bits | 1 << place)
}

fn parse_percentiles(words: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    if matches!(words, [] | [b""]) {
        return Ok(Value::text(*b""));
    }
    let mut texts = Vec::new();
    for word in words {
        let percentile = parse_f64(word)
            .filter(|number| !number.is_nan())
            .ok_or(ValueError::Borrowed("Invalid latency-tracking-info-percentiles parameters"))?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err(ValueError::Borrowed(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]",
            ));
        }
        let text = format!("{percentile:.6}");
        texts.push(text.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(Value::text(texts.join(" ").into_bytes()))
}

fn parse_bind(words: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    const ADDRESSES_MAX: usize = 16;
    if words.len() > ADDRESSES_MAX {
        return Err(ValueError::Borrowed("Too many bind addresses specified."));
    }
    Ok(Value::text(words.join(&b' ')))
}

fn parse_replicaof(words: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    match words {
        [] => Ok(Value::text(*b"")),
        [no, one] if no.eq_ignore_ascii_case(b"no") && one.eq_ignore_ascii_case(b"one") => {
            Ok(Value::text(*b""))
        }
        [_, port] if parse_i64(port).is_none_or(|port| !(0..=65_535).contains(&port)) => {
            Err(ValueError::Borrowed("Invalid master port"))
        }
        [_, _] => Ok(Value::text(words.join(&b' '))),
        _ => Err(ValueError::Borrowed("wrong number of arguments")),
    }
}

fn parse_yes_or_true(
    arguments: &[&[u8]],
    standing: PreviousValue<'_>,
) -> Result<Value, ValueError> {
    let text = arguments.first().copied().unwrap_or_default();
    match parse_choice(text, &["false", "true"]) {
        Ok(place) => Ok(Value::number(place)),
        Err(_) => Kind::Bool.parse_one(text, standing),
    }
}

fn parse_shutdown(words: &[&[u8]], _: PreviousValue<'_>) -> Result<Value, ValueError> {
    const SAVE_AND_NOSAVE: i64 = 0b11;
    let words = if words.is_empty() { &[b"".as_slice()] } else { words };
    let mut flags = 0;
    for word in words {
        // `default`, at place 0, shifts its bit out.
        flags |= (1 << parse_choice(word, SHUTDOWN_WORDS)?) >> 1;
    }
    if flags & SAVE_AND_NOSAVE == SAVE_AND_NOSAVE {
        return Err(ValueError::Borrowed(
            "shutdown options SAVE and NOSAVE can't be used simultaneously",
        ));
    }
    Ok(Value::number(flags))
}

fn show_shutdown(value: &Value) -> String {
    let flags = value.numbers().first().copied().unwrap_or_default();
    let set: Vec<&str> = SHUTDOWN_WORDS
        .iter()
        .skip(1)
        .enumerate()
        .filter(|(bit, _)| flags >> bit & 1 == 1)
        .map(|(_, word)| *word)
        .collect();
    if set.is_empty() { SHUTDOWN_WORDS[0].to_owned() } else { set.join(" ") }
}
