//! A reply as text, the way redis-cli shows it on a terminal (`redis-cli --no-raw`).
//! Invariant: equal to redis-cli 7.0 for every type it can show; the smoke tests compare them.

use std::fmt::Write;

use base::quote::quote;
use proto::value::Value;

/// The text, without a line end.
pub fn render(value: &Value) -> String {
    let mut text = String::new();
    write(&mut text, value, 0);
    text
}

/// The bytes of a reply, or the line of an error, as they are.
#[track_caller]
pub fn text(value: &Value) -> String {
    let bytes = match value {
        Value::Error(line) => line,
        other => other.as_bytes().unwrap_or_else(|| panic!("no text: {other:?}")),
    };
    lossy(bytes)
}

fn write(text: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Simple(bytes) | Value::Verbatim(_, bytes) => text.push_str(&lossy(bytes)),
        Value::Error(bytes) => add(text, format_args!("(error) {}", lossy(bytes))),
        Value::Integer(number) => add(text, format_args!("(integer) {number}")),
        Value::Bulk(bytes) => text.push_str(&quote(bytes)),
        Value::Null | Value::NullArray => text.push_str("(nil)"),
        Value::Double(number) => add(text, format_args!("(double) {number}")),
        Value::DoubleText(number) => add(text, format_args!("(double) {}", lossy(number))),
        Value::Boolean(truth) => add(text, format_args!("({truth})")),
        Value::BigNumber(digits) => add(text, format_args!("(big number) {}", lossy(digits))),
        Value::Array(items) => list(text, items, (')', "(empty array)"), indent),
        Value::Set(items) => list(text, items, ('~', "(empty set)"), indent),
        Value::Push(items) => list(text, items, ('>', "(empty push)"), indent),
        Value::Map(pairs) => map(text, pairs, indent),
        Value::Attributed(pairs, value) => {
            map(text, pairs, indent);
            add(text, format_args!("\n{:indent$}", ""));
            write(text, value, indent);
        }
    }
}

fn list(text: &mut String, items: &[Value], (mark, empty): (char, &str), indent: usize) {
    if items.is_empty() {
        text.push_str(empty);
    }
    let width = digits(items.len());
    for (index, item) in items.iter().enumerate() {
        begin_line(text, index, mark, width, indent);
        write(text, item, indent + width + 2);
    }
}

fn map(text: &mut String, pairs: &[(Value, Value)], indent: usize) {
    if pairs.is_empty() {
        text.push_str("(empty hash)");
    }
    let width = digits(pairs.len());
    let inner = indent + width + 2;
    for (index, (key, value)) in pairs.iter().enumerate() {
        begin_line(text, index, '#', width, indent);
        write(text, key, inner);
        text.push_str(" => ");
        let mut shown = String::new();
        write(&mut shown, value, inner);
        if shown.contains('\n') && is_aggregate(value) {
            add(text, format_args!("\n{:inner$}", ""));
        }
        text.push_str(&shown);
    }
}

/// The first element stands where its container does; the others begin lines.
fn begin_line(text: &mut String, index: usize, mark: char, width: usize, indent: usize) {
    if index > 0 {
        add(text, format_args!("\n{:indent$}", ""));
    }
    add(text, format_args!("{:>width$}{mark} ", index + 1));
}

fn is_aggregate(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Set(_) | Value::Push(_) | Value::Map(_))
}

fn digits(count: usize) -> usize {
    count.to_string().len()
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn add(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    text.write_fmt(arguments).expect("writing to a String cannot fail");
}
