//! Replies as text, byte for byte as redis-cli writes them.
//!
//! Invariant: the raw form has the reply's own bytes and the delimiters; all other forms escape
//! what a terminal or a parser would take for something else. The one difference from redis-cli is
//! that quotes in ASCII-safe JSON are escaped, without which it is no JSON.

use std::io::Write;

use base::quote::quote;
use proto::value::Value;

use crate::options::{Options, Output};

/// How replies are written.
#[derive(Clone, Debug)]
pub(crate) struct Formatter {
    pub(crate) output: Output,
    /// Whether formatted replies have colours.
    pub(crate) is_coloured: bool,
    element_delimiter: Vec<u8>,
    reply_delimiter: Vec<u8>,
}

impl Formatter {
    /// As the options say; raw where they do not and nobody reads along.
    pub(crate) fn of(options: &Options, is_terminal: bool) -> Formatter {
        let usual = if is_terminal { Output::Standard } else { Output::Raw };
        Formatter {
            output: options.output.unwrap_or(usual),
            is_coloured: is_terminal && shows_colours(),
            element_delimiter: options.element_delimiter.clone(),
            reply_delimiter: options.reply_delimiter.clone(),
        }
    }

    /// A reply with its end.
    pub(crate) fn format(&self, reply: &Value) -> Vec<u8> {
        let mut text = Vec::new();
        match self.output {
            Output::Standard => {
                let layout = Layout { indent: 0, is_coloured: self.is_coloured };
                standard(&mut text, reply, layout);
                text.push(b'\n');
            }
            Output::Raw => {
                self.raw(&mut text, reply);
                text.extend_from_slice(&self.reply_delimiter);
            }
            Output::Csv => {
                csv(&mut text, reply);
                text.push(b'\n');
            }
            Output::Json | Output::QuotedJson => {
                json(&mut text, reply, self.output == Output::QuotedJson);
                text.push(b'\n');
            }
        }
        text
    }

    /// A reply that is a text of its own, as that of INFO is, for people as well as for programs.
    pub(crate) fn format_text(&self, reply: &Value) -> Vec<u8> {
        let mut text = Vec::new();
        self.raw(&mut text, reply);
        text
    }

    fn raw(&self, text: &mut Vec<u8>, value: &Value) {
        match value {
            Value::Null | Value::NullArray => {}
            Value::Error(line) => {
                text.extend_from_slice(line);
                text.push(b'\n');
            }
            Value::Boolean(truth) => text.extend_from_slice(format!("({truth})").as_bytes()),
            Value::Array(items) | Value::Set(items) | Value::Push(items) => {
                for (index, item) in items.iter().enumerate() {
                    if index > 0 {
                        text.extend_from_slice(&self.element_delimiter);
                    }
                    self.raw(text, item);
                }
            }
            Value::Map(pairs) => {
                for (index, (key, value)) in pairs.iter().enumerate() {
                    if index > 0 {
                        text.extend_from_slice(&self.element_delimiter);
                    }
                    self.raw(text, key);
                    text.push(b' ');
                    self.raw(text, value);
                }
            }
            Value::Attributed(_, value) => self.raw(text, value),
            scalar => plain(text, scalar),
        }
    }
}

/// Numbers, and strings without quotes.
fn plain(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Integer(number) => text.extend_from_slice(number.to_string().as_bytes()),
        Value::Double(number) => text.extend_from_slice(number.to_string().as_bytes()),
        other => text.extend_from_slice(other.as_bytes().unwrap_or_default()),
    }
}

fn is_aggregate(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Set(_) | Value::Push(_) | Value::Map(_))
}

/// Whether the user's terminal has colours, and the user wants them: <https://no-color.org>.
fn shows_colours() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !is_set("NO_COLOR") && std::env::var_os("TERM").is_some_and(|name| name != "dumb")
}

/// Where a formatted value stands, and how it looks.
#[derive(Clone, Copy)]
struct Layout {
    indent: usize,
    is_coloured: bool,
}

impl Layout {
    /// Further to the right.
    fn within(self, width: usize) -> Layout {
        Layout { indent: self.indent + width, ..self }
    }
}

/// The terminal's code for the colour of a value.
fn colour_of(value: &Value) -> Option<&'static str> {
    Some(match value {
        Value::Error(_) => "31",
        Value::Bulk(_) => "32",
        Value::Integer(_) | Value::Double(_) | Value::DoubleText(_) | Value::BigNumber(_) => "33",
        Value::Boolean(_) => "35",
        Value::Null | Value::NullArray => "90",
        _ => return None,
    })
}

fn standard(text: &mut Vec<u8>, value: &Value, layout: Layout) {
    let colour = colour_of(value).filter(|_| layout.is_coloured);
    if let Some(colour) = colour {
        text.extend_from_slice(format!("\x1b[{colour}m").as_bytes());
    }
    let prefix: &[u8] = match value {
        Value::Error(_) => b"(error) ",
        Value::Integer(_) => b"(integer) ",
        Value::Double(_) | Value::DoubleText(_) => b"(double) ",
        Value::BigNumber(_) => b"(big number) ",
        _ => b"",
    };
    text.extend_from_slice(prefix);
    match value {
        Value::Error(line) => text.extend_from_slice(line),
        Value::Bulk(bytes) => text.extend_from_slice(quote(bytes).as_bytes()),
        Value::Null | Value::NullArray => text.extend_from_slice(b"(nil)"),
        Value::Boolean(truth) => text.extend_from_slice(format!("({truth})").as_bytes()),
        Value::Array(items) => list(text, items, (')', "(empty array)"), layout),
        Value::Set(items) => list(text, items, ('~', "(empty set)"), layout),
        Value::Push(items) => list(text, items, ('>', "(empty push)"), layout),
        Value::Map(pairs) => map(text, pairs, layout),
        Value::Attributed(pairs, value) => {
            map(text, pairs, layout);
            next_line(text, layout);
            standard(text, value, layout);
        }
        scalar => plain(text, scalar),
    }
    if colour.is_some() {
        text.extend_from_slice(b"\x1b[0m");
    }
}

fn list(text: &mut Vec<u8>, items: &[Value], (mark, empty): (char, &str), layout: Layout) {
    if items.is_empty() {
        text.extend_from_slice(empty.as_bytes());
    }
    let width = items.len().to_string().len();
    for (index, item) in items.iter().enumerate() {
        number_line(text, index, (mark, width), layout);
        standard(text, item, layout.within(width + 2));
    }
}

fn map(text: &mut Vec<u8>, pairs: &[(Value, Value)], layout: Layout) {
    if pairs.is_empty() {
        text.extend_from_slice(b"(empty hash)");
    }
    let width = pairs.len().to_string().len();
    let inner = layout.within(width + 2);
    for (index, (key, value)) in pairs.iter().enumerate() {
        number_line(text, index, ('#', width), layout);
        standard(text, key, inner);
        text.extend_from_slice(b" => ");
        let mut shown = Vec::new();
        standard(&mut shown, value, inner);
        if is_aggregate(value) && shown.contains(&b'\n') {
            next_line(text, inner);
        }
        text.extend_from_slice(&shown);
    }
}

/// Begins an element: the first stands where its container does, the others begin lines.
fn number_line(text: &mut Vec<u8>, index: usize, (mark, width): (char, usize), layout: Layout) {
    if index > 0 {
        next_line(text, layout);
    }
    write!(text, "{:>width$}{mark} ", index + 1).expect("a vector takes everything");
}

fn next_line(text: &mut Vec<u8>, layout: Layout) {
    let indent = layout.indent;
    write!(text, "\n{:indent$}", "").expect("a vector takes everything");
}

fn csv(text: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Error(line) => {
            text.extend_from_slice(b"ERROR,");
            text.extend_from_slice(quote(line).as_bytes());
        }
        Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim(_, bytes) => {
            text.extend_from_slice(quote(bytes).as_bytes());
        }
        Value::Null | Value::NullArray => text.extend_from_slice(b"NULL"),
        Value::Boolean(truth) => text.extend_from_slice(truth.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            separated(text, items, csv);
        }
        Value::Map(pairs) => separated(text, pairs, |text, (key, value)| {
            csv(text, key);
            text.push(b',');
            csv(text, value);
        }),
        Value::Attributed(_, value) => csv(text, value),
        scalar => plain(text, scalar),
    }
}

fn separated<Item>(text: &mut Vec<u8>, items: &[Item], write: impl Fn(&mut Vec<u8>, &Item)) {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        write(text, item);
    }
}

fn json(text: &mut Vec<u8>, value: &Value, is_ascii: bool) {
    match value {
        Value::Error(line) => {
            text.extend_from_slice(b"error:");
            json_string(text, line, is_ascii);
        }
        Value::Simple(bytes) | Value::Bulk(bytes) | Value::Verbatim(_, bytes) => {
            json_string(text, bytes, is_ascii);
        }
        Value::Null | Value::NullArray => text.extend_from_slice(b"null"),
        Value::Boolean(truth) => text.extend_from_slice(truth.to_string().as_bytes()),
        Value::Array(items) | Value::Set(items) | Value::Push(items) => {
            text.push(b'[');
            separated(text, items, |text, item| json(text, item, is_ascii));
            text.push(b']');
        }
        Value::Map(pairs) => {
            text.push(b'{');
            separated(text, pairs, |text, (key, value)| {
                json_key(text, key, is_ascii);
                text.push(b':');
                json(text, value, is_ascii);
            });
            text.push(b'}');
        }
        Value::Attributed(_, value) => json(text, value, is_ascii),
        scalar => plain(text, scalar),
    }
}

/// Names of members are strings in JSON, whatever they are here.
fn json_key(text: &mut Vec<u8>, key: &Value, is_ascii: bool) {
    let mut shown = Vec::new();
    json(&mut shown, key, is_ascii);
    match shown.first() {
        Some(b'"') => text.extend_from_slice(&shown),
        _ => json_string(text, &shown, is_ascii),
    }
}

fn json_string(text: &mut Vec<u8>, bytes: &[u8], is_ascii: bool) {
    let quoted;
    let bytes = if is_ascii {
        quoted = quote(bytes);
        // What quoting has escaped is escaped for JSON once more.
        &quoted.as_bytes()[1..quoted.len() - 1]
    } else {
        bytes
    };
    text.push(b'"');
    for byte in bytes {
        match byte {
            b'"' | b'\\' => text.extend_from_slice(&[b'\\', *byte]),
            b'\n' => text.extend_from_slice(b"\\n"),
            b'\r' => text.extend_from_slice(b"\\r"),
            b'\t' => text.extend_from_slice(b"\\t"),
            0x08 => text.extend_from_slice(b"\\b"),
            0x0c => text.extend_from_slice(b"\\f"),
            0..0x20 => write!(text, "\\u{byte:04x}").expect("a vector takes everything"),
            _ => text.push(*byte),
        }
    }
    text.push(b'"');
}

#[cfg(test)]
mod tests {
    use proto::value::{ReplyLimits, ReplyParser};

    use super::Formatter;
    use crate::options::{Options, Output};

    fn shown(reply: &str, output: Output) -> String {
        let options = Options { output: Some(output), ..Options::default() };
        let mut parser = ReplyParser::new(ReplyLimits::default()).keeping_double_text();
        parser.feed(reply.as_bytes());
        let reply = parser.next_reply().expect("sound").expect("complete");
        let text = Formatter::of(&options, false).format(&reply);
        String::from_utf8(text).expect("text")
    }

    #[test]
    fn colours_change_nothing_else() {
        let reply = "*5\r\n:1\r\n$1\r\na\r\n-ERR x\r\n_\r\n*1\r\n+OK\r\n";
        let mut parser = ReplyParser::new(ReplyLimits::default());
        parser.feed(reply.as_bytes());
        let parsed = parser.next_reply().expect("sound").expect("complete");
        let options = Options { output: Some(Output::Standard), ..Options::default() };
        let formatter = Formatter { is_coloured: true, ..Formatter::of(&options, false) };
        let text = String::from_utf8(formatter.format(&parsed)).expect("text");
        let expected = "1) \x1b[33m(integer) 1\x1b[0m\n2) \x1b[32m\"a\"\x1b[0m\n3) \
                        \x1b[31m(error) ERR x\x1b[0m\n4) \x1b[90m(nil)\x1b[0m\n5) 1) OK\n";
        assert_eq!(text, expected);
        let mut bare = text;
        for code in ["31", "32", "33", "90", "0"] {
            bare = bare.replace(&format!("\x1b[{code}m"), "");
        }
        assert_eq!(bare, shown(reply, Output::Standard));
    }

    /// What redis-cli 7.0 writes for the same bytes.
    #[test]
    fn replies_look_as_in_redis_cli() {
        let nested = "*3\r\n:1\r\n*2\r\n$1\r\na\r\n*1\r\n,0.10\r\n*0\r\n";
        let map = "%2\r\n+one\r\n%1\r\n:1\r\n#t\r\n$3\r\ntwo\r\n%2\r\n:1\r\n_\r\n:2\r\n~0\r\n";
        for (reply, output, expected) in [
            ("+OK\r\n", Output::Standard, "OK\n"),
            ("$2\r\na\n\r\n", Output::Standard, "\"a\\n\"\n"),
            ("=6\r\ntxt:a\n\r\n", Output::Standard, "a\n\n"),
            (
                nested,
                Output::Standard,
                "1) (integer) 1\n2) 1) \"a\"\n   2) 1) (double) 0.10\n3) (empty array)\n",
            ),
            (
                map,
                Output::Standard,
                "1# one => 1# (integer) 1 => (true)\n2# \"two\" => \n   1# (integer) 1 => \
                 (nil)\n   2# (integer) 2 => (empty set)\n",
            ),
            (nested, Output::Raw, "1\na\n0.10\n\n"),
            (map, Output::Raw, "one 1 (true)\ntwo 1 \n2 \n"),
            ("-ERR x\r\n", Output::Raw, "ERR x\n\n"),
            (nested, Output::Csv, "1,\"a\",0.10,\n"),
            ("-ERR x\r\n", Output::Csv, "ERROR,\"ERR x\"\n"),
            (map, Output::Json, "{\"one\":{\"1\":true},\"two\":{\"1\":null,\"2\":[]}}\n"),
            ("-ERR x\r\n", Output::Json, "error:\"ERR x\"\n"),
            ("$4\r\n\u{e9}\n\x01\r\n", Output::Json, "\"\u{e9}\\n\\u0001\"\n"),
            ("$3\r\n\u{e9}\n\r\n", Output::QuotedJson, "\"\\\\xc3\\\\xa9\\\\n\"\n"),
            ("$3\r\nx\"y\r\n", Output::QuotedJson, "\"x\\\\\\\"y\"\n"),
        ] {
            assert_eq!(shown(reply, output), expected, "{reply:?}");
        }
    }
}
