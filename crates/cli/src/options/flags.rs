//! The flags of `apus cli`, one entry each: names, operand, what they set, what `--help` says.
//!
//! Invariant: each name stands once.

use std::fmt::Write;
use std::time::Duration;

use super::{FromStdin, Options, Output, modes, uri};

/// One flag.
pub(super) struct Flag {
    pub(super) names: &'static [&'static str],
    pub(super) setter: Setter,
    help: &'static str,
}

/// What a flag does. An error without text is worded by the caller.
pub(super) enum Setter {
    /// A flag alone.
    Switch(fn(&mut Options) -> Result<(), String>),
    /// A flag with a value; the operand's name.
    Value(&'static str, fn(&mut Options, &str) -> Result<(), String>),
}

/// Flags that belong together.
struct FlagGroup {
    title: &'static str,
    flags: &'static [Flag],
}

const GROUPS: &[FlagGroup] = &[
    FlagGroup { title: "The server", flags: SERVER },
    FlagGroup { title: "Encrypted connections", flags: ENCRYPTION },
    FlagGroup { title: "Commands", flags: COMMANDS },
    FlagGroup { title: "Replies", flags: REPLIES },
    FlagGroup { title: "Instead of commands", flags: modes::DATA },
    FlagGroup { title: "To measure", flags: modes::MEASURES },
];

/// All flags.
pub(super) fn all() -> impl Iterator<Item = &'static Flag> {
    GROUPS.iter().flat_map(|group| group.flags)
}

/// The flag of a name.
pub(super) fn find(name: &str) -> Option<&'static Flag> {
    all().find(|flag| flag.names.contains(&name))
}

/// Where the explanations stand.
const COLUMN: usize = 29;

/// The text of `--help`.
pub(crate) fn help() -> String {
    let mut text = String::from(
        "Usage: apus cli [options] [command [argument ...]]\n\
         A client for servers that speak Redis' protocol. It takes redis-cli's options. Without a\n\
         command it reads commands, from a terminal with history, hints and completion.\n",
    );
    let mut add = |line: std::fmt::Arguments<'_>| {
        text.write_fmt(line).expect("writing to a String cannot fail");
    };
    for group in GROUPS {
        add(format_args!("\n{}:\n", group.title));
        for flag in group.flags {
            let operand = match flag.setter {
                Setter::Value(operand, _) => format!(" {operand}"),
                Setter::Switch(_) => String::new(),
            };
            let names = format!("  {}{operand}", flag.names.join(", "));
            let mut lines = flag.help.lines().map(str::trim_start);
            let first = lines.next().unwrap_or_default();
            if names.len() < COLUMN {
                add(format_args!("{names:COLUMN$}{first}\n"));
            } else {
                add(format_args!("{names}\n{:COLUMN$}{first}\n", ""));
            }
            for line in lines {
                add(format_args!("{:COLUMN$}{line}\n", ""));
            }
        }
    }
    add(format_args!("{END}"));
    text
}

const END: &str = "  --help                     This text.
  --version                  The version.

REDISCLI_AUTH in the environment is a password, REDISCLI_HISTFILE the file of the history
(default ~/.apus_cli_history), REDISCLI_RCFILE one of settings (default ~/.redisclirc).

Examples:
       apus cli SET greeting hello
       apus cli -h cache.example.org -p 6380 --tls INFO server
       cat /etc/passwd | apus cli -x SET mypasswd
       apus cli -r 10 -i 1 INCR counter
       apus cli --eval script.lua key1 key2 , argument1
       apus cli --scan --pattern 'user:*'
       apus cli --bigkeys -i 0.1
       apus cli --pipe < commands.txt
       apus cli --rdb backup.rdb
       apus ping -p 6380
";

pub(super) const fn switch(
    names: &'static [&'static str],
    help: &'static str,
    set: fn(&mut Options) -> Result<(), String>,
) -> Flag {
    Flag { names, setter: Setter::Switch(set), help }
}

pub(super) const fn value(
    names: &'static [&'static str],
    operand: &'static str,
    help: &'static str,
    set: fn(&mut Options, &str) -> Result<(), String>,
) -> Flag {
    Flag { names, setter: Setter::Value(operand, set), help }
}

/// A number, for a flag whose error the caller words.
pub(super) fn number<Number: std::str::FromStr>(text: &str) -> Result<Number, String> {
    text.parse().map_err(|_| String::new())
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    Duration::try_from_secs_f64(number(text)?).map_err(|_| String::new())
}

fn protocol(options: &mut Options, version: u8) -> Result<(), String> {
    if options.protocol.is_some_and(|before| before != version) {
        return Err("Options -2 and -3 are mutually exclusive.".to_owned());
    }
    options.protocol = Some(version);
    Ok(())
}

const SERVER: &[Flag] = &[
    value(&["-h"], "HOST", "Name or address (default: 127.0.0.1).", |options, text| {
        options.host = text.to_owned();
        Ok(())
    }),
    value(&["-p"], "PORT", "Port (default: 6379).", |options, text| {
        options.port = number(text)?;
        Ok(())
    }),
    value(&["-s"], "SOCKET", "A Unix socket instead of host and port.", |options, text| {
        options.socket = Some(text.into());
        Ok(())
    }),
    value(&["-t"], "SECONDS", "How long a connection may take to be made.", |options, text| {
        options.connect_timeout = Some(seconds(text)?).filter(|time| !time.is_zero());
        Ok(())
    }),
    value(&["-a", "--pass"], "PASSWORD", "Password; REDISCLI_AUTH is safer.", |options, text| {
        options.login.password = Some(text.to_owned());
        options.shows_password = true;
        Ok(())
    }),
    value(&["--user"], "NAME", "User of the password.", |options, text| {
        options.login.user = Some(text.to_owned());
        Ok(())
    }),
    switch(&["--askpass"], "Ask for the password, and do not show it.", |options| {
        options.asks_password = true;
        Ok(())
    }),
    switch(&["--no-auth-warning"], "Do not warn of a password in the arguments.", |options| {
        options.warns_of_password = false;
        Ok(())
    }),
    value(&["-u"], "URI", "redis://user:password@host:port/database, or rediss://.", uri::apply),
    value(&["-n"], "DATABASE", "Number of the database.", |options, text| {
        options.database = number(text)?;
        Ok(())
    }),
    switch(&["-2"], "Speak RESP2.", |options| protocol(options, 2)),
    switch(&["-3"], "Speak RESP3.", |options| protocol(options, 3)),
    switch(&["-c"], "Follow -MOVED and -ASK of a cluster.", |options| {
        options.follows_redirections = true;
        Ok(())
    }),
];

const ENCRYPTION: &[Flag] = &[
    switch(&["--tls"], "Encrypt the connection.", |options| {
        options.is_encrypted = true;
        Ok(())
    }),
    value(&["--sni"], "HOST", "Name of the server that is wanted.", |options, text| {
        options.encryption_with(|it| it.sni = Some(text.to_owned()))
    }),
    value(&["--cacert"], "FILE", "Authorities that are trusted.", |options, text| {
        options.encryption_with(|it| it.authorities = Some(text.into()))
    }),
    value(&["--cacertdir"], "FOLDER", "A folder of authorities.", |options, text| {
        options.encryption_with(|it| it.authorities_folder = Some(text.into()))
    }),
    switch(&["--insecure"], "Trust any certificate.", |options| {
        options.encryption_with(|it| it.trusts_all = true)
    }),
    value(&["--cert"], "FILE", "Certificate of the client.", |options, text| {
        options.encryption_with(|it| it.certificate = Some(text.into()))
    }),
    value(&["--key"], "FILE", "Its private key.", |options, text| {
        options.encryption_with(|it| it.key = Some(text.into()))
    }),
    value(&["--tls-ciphers"], "LIST", "Ciphers of TLS 1.2.", |options, text| {
        options.encryption_with(|it| it.ciphers = Some(text.to_owned()))
    }),
    value(&["--tls-ciphersuites"], "LIST", "Ciphersuites of TLS 1.3.", |options, text| {
        options.encryption_with(|it| it.suites = Some(text.to_owned()))
    }),
];

const COMMANDS: &[Flag] = &[
    value(&["-r"], "COUNT", "Run the command so often; -1 for ever.", |options, text| {
        options.repeat = u64::try_from(number::<i64>(text)?).ok();
        Ok(())
    }),
    value(
        &["-i"],
        "SECONDS",
        "Pause between repetitions, lines of --stat, and calls of
         --scan; how long --latency samples.",
        |options, text| {
            options.interval = Some(seconds(text)?).filter(|time| !time.is_zero());
            Ok(())
        },
    ),
    switch(&["-x"], "Take the last argument from the standard input.", |options| {
        options.from_stdin = FromStdin::Last;
        Ok(())
    }),
    value(&["-X"], "TAG", "Take the argument TAG from the standard input.", |options, text| {
        options.from_stdin = FromStdin::Tag(text.to_owned());
        Ok(())
    }),
    switch(&["--quoted-input"], "Read arguments in quotes as quoted text.", |options| {
        options.quoted_input = true;
        Ok(())
    }),
    switch(&["-e"], "Fail if a command fails.", |options| {
        options.fails_on_errors = true;
        Ok(())
    }),
    // As in redis-cli, where clusters are managed alone.
    switch(&["--verbose"], "Say more; taken for redis-cli's sake.", |_| Ok(())),
];

const REPLIES: &[Flag] = &[
    value(&["-d"], "TEXT", "Between elements of raw replies (default: \\n).", |options, text| {
        options.element_delimiter = text.as_bytes().to_vec();
        Ok(())
    }),
    value(&["-D"], "TEXT", "Behind raw replies (default: \\n).", |options, text| {
        options.reply_delimiter = text.as_bytes().to_vec();
        Ok(())
    }),
    switch(&["--raw"], "Raw replies (default unless on a terminal).", |options| {
        options.output = Some(Output::Raw);
        Ok(())
    }),
    switch(&["--no-raw"], "Formatted replies, also elsewhere than on a terminal.", |options| {
        options.output = Some(Output::Standard);
        Ok(())
    }),
    switch(&["--csv"], "Replies as comma-separated values.", |options| {
        options.output = Some(Output::Csv);
        Ok(())
    }),
    switch(&["--json"], "Replies as JSON, of RESP3 unless -2 is given.", |options| {
        options.output = Some(Output::Json);
        Ok(())
    }),
    switch(&["--quoted-json"], "The same, in ASCII.", |options| {
        options.output = Some(Output::QuotedJson);
        Ok(())
    }),
    value(
        &["--show-pushes"],
        "YES|NO",
        "Whether pushed messages of RESP3 are shown
         (default: on a terminal).",
        |options, text| {
            options.shows_pushes = match text.as_bytes().first() {
                Some(b'y' | b'Y') => Some(true),
                Some(b'n' | b'N') => Some(false),
                _ => {
                    return Err(format!(
                        "Unknown --show-pushes value '{text}' (valid: '[y]es', '[n]o')"
                    ));
                }
            };
            Ok(())
        },
    ),
];
