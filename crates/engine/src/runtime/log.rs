//! The log: one line per event, in Redis' form or as JSON, to a file or standard output, and to
//! syslog where that is asked for.
//!
//! Invariants: a line is written in one piece and stays one, whatever text of others is in it;
//! logging never fails a command.

use std::borrow::Cow;
use std::fmt::{self, Arguments, Display, Formatter};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use base::io_error_text::strerror;
use base::time::Clock;
use config::settings::{LOG_FORMAT, LOG_TIMESTAMP_FORMAT, LOGFILE, LOGLEVEL, SYSLOG_ENABLED};
use config::{Config, LogFormat, LogLevel, LogTimestampFormat, Profile};
use keyspace::heap;

use crate::runtime::signal_safe_log::{self, LastResortSink, SignalSafeLog};
use crate::runtime::syslog::Syslog;

/// Where log lines go, and which.
pub struct Log {
    sink: Mutex<Sink>,
    clock: Clock,
    /// Whether there is no standard output to write to.
    is_daemon: bool,
}

/// A place to write to, opened, and what is written there.
pub struct Sink {
    level: LogLevel,
    shape: Shape,
    target: Target,
    syslog: Option<Syslog>,
}

/// How lines look.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    profile: Profile,
    pub(super) format: LogFormat,
    timestamps: LogTimestampFormat,
}

/// Whether lines say that this is a replica.
static IS_REPLICA: AtomicBool = AtomicBool::new(false);

/// Has lines say from here on whether this is a replica.
pub(crate) fn set_replica(is_replica: bool) {
    IS_REPLICA.store(is_replica, Ordering::Relaxed);
}

/// Where lines go.
enum Target {
    Output,
    File(File),
    Nowhere,
}

/// Writes a line of level "notice".
#[macro_export]
macro_rules! log_notice {
    ($log:expr, $($text:tt)*) => {
        $log.write(::config::LogLevel::Notice, format_args!($($text)*))
    };
}

/// Writes a line of level "warning".
#[macro_export]
macro_rules! log_warning {
    ($log:expr, $($text:tt)*) => {
        $log.write(::config::LogLevel::Warning, format_args!($($text)*))
    };
}

pub use crate::{log_notice, log_warning};

impl Log {
    /// The log that the configuration asks for; the error is for the operator.
    pub fn open(config: &Config, is_daemon: bool) -> Result<Self, String> {
        let sink = Mutex::new(Sink::default());
        let log = Self { sink, clock: Clock::system(), is_daemon };
        log.change(log.prepare(config)?);
        heap::set_refusal_hook(signal_safe_log::report_refusal);
        Ok(log)
    }

    /// What a configuration asks for, opened, for `change`; the error is for the operator.
    pub fn prepare(&self, config: &Config) -> Result<Sink, String> {
        let path = config.get(LOGFILE);
        let target = if path.is_empty() {
            if self.is_daemon { Target::Nowhere } else { Target::Output }
        } else {
            let path = Path::new(std::ffi::OsStr::from_bytes(&path));
            let opened = OpenOptions::new().create(true).append(true).open(path);
            Target::File(opened.map_err(|error| {
                format!("Can't open the log file {}: {}", path.display(), strerror(&error))
            })?)
        };
        let syslog = config.get(SYSLOG_ENABLED).then(|| Syslog::connect(config)).flatten();
        let (format, timestamps) = (config.get(LOG_FORMAT), config.get(LOG_TIMESTAMP_FORMAT));
        let shape = Shape { profile: config.profile(), format, timestamps };
        Ok(Sink { level: config.get(LOGLEVEL), shape, target, syslog })
    }

    /// Writes there from here on.
    pub fn change(&self, sink: Sink) {
        let outlet = match &sink.target {
            Target::File(file) => {
                file.try_clone().map_or(LastResortSink::Nowhere, LastResortSink::File)
            }
            Target::Output => LastResortSink::Output,
            Target::Nowhere => LastResortSink::Nowhere,
        };
        let (shape, clock) = (sink.shape, self.clock.clone());
        signal_safe_log::go_to(SignalSafeLog { outlet, shape, clock });
        *self.sink.lock().expect("no critical section here panics") = sink;
    }

    /// Writes why the process ends, unless standard error, which is told as well, stands beside it.
    pub fn write_last(&self, line: &str) {
        let is_beside = {
            let sink = self.sink.lock().expect("no critical section here panics");
            matches!(sink.target, Target::Output) && sink.syslog.is_none()
        };
        if !is_beside {
            log_warning!(self, "{line}");
        }
    }

    /// Writes a line, if its level is wanted.
    pub fn write(&self, level: LogLevel, text: Arguments<'_>) {
        let mut sink = self.sink.lock().expect("no critical section here panics");
        if (level as usize) < sink.level as usize {
            return;
        }
        let text = text.to_string();
        let shown = match sink.shape.format {
            LogFormat::Legacy => without_controls(&text),
            LogFormat::Logfmt => base::quote::quote(text.as_bytes()).into(),
            LogFormat::Json => json_string(&text).into(),
        };
        let line = Line { shape: sink.shape, level, now_ms: self.clock.now_ms(), shown: &shown };
        let line = line.to_string();
        // A full disk must not stop the service, and there is nobody left to tell.
        let _ = match &mut sink.target {
            Target::File(file) => file.write_all(line.as_bytes()),
            Target::Output => std::io::stdout().write_all(line.as_bytes()),
            Target::Nowhere => Ok(()),
        };
        if let Some(syslog) = &sink.syslog {
            syslog.write(level, &without_controls(&text));
        }
    }
}

impl Default for Sink {
    fn default() -> Self {
        Self {
            level: LogLevel::Notice,
            shape: Shape {
                profile: Profile::Server,
                format: LogFormat::Legacy,
                timestamps: LogTimestampFormat::Legacy,
            },
            target: Target::Output,
            syslog: None,
        }
    }
}

/// A line of the log; what it shows is as its format wants it.
pub(super) struct Line<'a> {
    pub(super) shape: Shape,
    pub(super) level: LogLevel,
    pub(super) now_ms: i64,
    pub(super) shown: &'a str,
}

impl Display for Line<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { shape, level, now_ms, shown } = *self;
        let (pid, time) = (std::process::id(), Timestamp { now_ms, form: shape.timestamps });
        let (letter, role) = match shape.profile {
            Profile::Server if IS_REPLICA.load(Ordering::Relaxed) => ('S', "slave"),
            Profile::Server => ('M', "master"),
            Profile::Sentinel => ('X', "sentinel"),
        };
        match shape.format {
            LogFormat::Legacy => writeln!(f, "{pid}:{letter} {time} {} {shown}", mark(level)),
            LogFormat::Logfmt => writeln!(
                f,
                "pid={pid} role={role} timestamp=\"{time}\" level={} message={shown}",
                name(level),
            ),
            LogFormat::Json => writeln!(
                f,
                "{{\"pid\":{pid},\"role\":\"{role}\",\"timestamp\":\"{time}\",\"level\":\"{}\",\
                 \"message\":{shown}}}",
                name(level),
            ),
        }
    }
}

/// A text in one line and without orders to a terminal: much of it comes from clients and files.
fn without_controls(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let shown = text.chars().map(|letter| match letter {
        control if control.is_control() => control.escape_default().to_string(),
        other => other.to_string(),
    });
    Cow::Owned(shown.collect())
}

fn mark(level: LogLevel) -> char {
    match level {
        LogLevel::Debug => '.',
        LogLevel::Verbose => '-',
        LogLevel::Notice => '*',
        LogLevel::Warning | LogLevel::Nothing => '#',
    }
}

fn name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Debug => "debug",
        LogLevel::Verbose => "info",
        LogLevel::Notice => "notice",
        LogLevel::Warning | LogLevel::Nothing => "warning",
    }
}

/// Text as a JSON string, quotes included.
pub(crate) fn json_string(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            '\n' => quoted.push_str("\\n"),
            other if other.is_control() => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(other)));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// A time as lines tell it.
struct Timestamp {
    now_ms: i64,
    form: LogTimestampFormat,
}

impl Display for Timestamp {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self { now_ms, form } = *self;
        let (seconds, millis) = (now_ms.div_euclid(1000), now_ms.rem_euclid(1000));
        let (year, month, day) = base::time::civil_date(seconds.div_euclid(86_400));
        let second = seconds.rem_euclid(86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        match form {
            LogTimestampFormat::Legacy => {
                const MONTHS: [&str; 12] = [
                    "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov",
                    "Dec",
                ];
                let month = MONTHS[month - 1];
                write!(f, "{day:02} {month} {year} {hour:02}:{minute:02}:{second:02}.{millis:03}")
            }
            LogTimestampFormat::Iso8601 => write!(
                f,
                "{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z"
            ),
            LogTimestampFormat::Milliseconds => write!(f, "{now_ms}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LogTimestampFormat, Timestamp, json_string, without_controls};

    #[test]
    fn no_text_makes_a_second_line_or_orders_a_terminal() {
        for (text, shown) in [
            ("plain \u{e9} 'text' \"\\\"", "plain \u{e9} 'text' \"\\\""),
            ("a\n1:M 01 Jan # forged", "a\\n1:M 01 Jan # forged"),
            ("\r\t\0", "\\r\\t\\u{0}"),
            ("\u{1b}[2J\u{9b}1m\u{7f}", "\\u{1b}[2J\\u{9b}1m\\u{7f}"),
        ] {
            assert_eq!(without_controls(text), shown);
        }
    }

    #[test]
    fn dates_are_right_at_the_edges() {
        let show = |now_ms, form| Timestamp { now_ms, form }.to_string();
        let iso = |ms| show(ms, LogTimestampFormat::Iso8601);
        assert_eq!(iso(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(iso(951_782_400_123), "2000-02-29T00:00:00.123Z");
        assert_eq!(iso(4_102_444_799_999), "2099-12-31T23:59:59.999Z");
        assert_eq!(show(0, LogTimestampFormat::Legacy), "01 Jan 1970 00:00:00.000");
    }

    #[test]
    fn json_strings_hold_on_one_line() {
        assert_eq!(json_string("a\"b\\c\nd\u{1}"), r#""a\"b\\c\nd\u0001""#);
    }
}
