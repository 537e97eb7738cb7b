//! Tests of the configuration as a whole. Values and error texts are those that Redis 8.2 gives.

mod profiles;
mod values;

use std::ffi::OsString;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

use super::{Config, LoadError, Profile, RewriteError, SetError, Startup, StartupAction};

fn start(arguments: &[&str], input: &str) -> Result<Startup, LoadError> {
    start_as(Profile::Server, arguments, input)
}

fn start_as(profile: Profile, arguments: &[&str], input: &str) -> Result<Startup, LoadError> {
    Startup::read(profile, arguments.iter().map(OsString::from), &mut Cursor::new(input))
}

fn load(text: &str) -> Startup {
    match start(&["-"], text) {
        Ok(startup) => startup,
        Err(error) => panic!("{error}"),
    }
}

/// What a broken configuration says, without the head.
fn refusal(arguments: &[&str], input: &str) -> String {
    let error = start(arguments, input).err().expect("a refusal").to_string();
    assert!(error.starts_with("*** FATAL CONFIG FILE ERROR (") && !error.contains('\n'), "{error}");
    error.split_once(") *** ").expect("the head").1.to_owned()
}

fn get(config: &Config, name: &str) -> String {
    String::from_utf8(config.show(name.as_bytes()).unwrap()).unwrap()
}

/// Sets some values; which options have another one now, as the client called them.
fn set(config: &Config, pairs: &[&str]) -> Result<Vec<String>, String> {
    let pairs: Vec<&[u8]> = pairs.iter().map(|word| word.as_bytes()).collect();
    let drafted = config.draft(&pairs, true).inspect(|draft| config.publish(draft));
    let changed = drafted.map(|draft| {
        let changed = draft.options.into_iter().filter(|option| option.is_new);
        changed.map(|option| option.called).collect()
    });
    changed.map_err(|error| String::from_utf8(error.line()).unwrap())
}

/// Sets one value and says what it became, or why not.
fn set_one(config: &Config, name: &str, value: &str) -> Result<String, String> {
    match set(config, &[name, value]) {
        Ok(_) => Ok(get(config, name)),
        Err(error) => {
            let head = format!("ERR CONFIG SET failed (possibly related to argument '{name}') - ");
            Err(error.strip_prefix(&head).expect("Redis' words").to_owned())
        }
    }
}

#[track_caller]
fn check(name: &str, rows: &[(&str, Result<&str, &str>)]) {
    let config = Config::new();
    for (value, expected) in rows {
        let expected = expected.map(str::to_owned).map_err(str::to_owned);
        assert_eq!(set_one(&config, name, value), expected, "{name} {value:?}");
    }
}

fn fixture(name: &str) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/conf").join(name);
    fs::read_to_string(path).unwrap()
}

/// A directory of a test's own, gone with it.
struct Scratch(PathBuf);

impl Scratch {
    fn new(test: &str) -> Scratch {
        let path = std::env::temp_dir().join(format!("apus-config-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Scratch(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn set_is_atomic_and_says_what_is_new() {
    let config = Config::new();
    let pairs = ["Port", "7000", "bind", "::1", "loglevel", "notice"];
    assert_eq!(set(&config, &pairs).unwrap(), ["Port", "bind"]);
    assert!(set(&config, &["port", "7000"]).unwrap().is_empty());
    let error = set(&config, &["timeout", "5", "hz", "many"]).unwrap_err();
    assert_eq!(
        error,
        "ERR CONFIG SET failed (possibly related to argument 'hz') - \
         argument couldn't be parsed into an integer"
    );
    assert_eq!(get(&config, "timeout"), "0");
}

/// As Redis shows it: what is below the least size was never set.
#[test]
fn a_backlog_has_a_least_size() {
    let config = Config::new();
    for (given, shown) in [("100", "16384"), ("16kb", "16384"), ("16385", "16385")] {
        set(&config, &["repl-backlog-size", given]).unwrap();
        assert_eq!(get(&config, "repl-backlog-size"), shown, "{given}");
    }
    let startup = load("repl-backlog-size 1\n");
    assert_eq!(get(&startup.config, "repl-backlog-size"), "16384");
}

#[test]
fn a_draft_changes_nothing_until_it_is_published() {
    let config = Config::new();
    let values = |config: &Config| (get(config, "timeout"), get(config, "requirepass"));
    let pairs: [&[u8]; 6] = [b"timeout", b"9", b"requirepass", b"secret", b"port", b"1"];
    let draft = config.draft(&pairs, false).unwrap();
    assert_eq!(values(&config), ("0".into(), String::new()));
    assert_eq!(values(&draft.config), ("9".into(), "secret".into()));
    assert_eq!(get(&draft.config, "hz"), "10");
    let names: Vec<&str> = draft.options.iter().map(|option| option.name).collect();
    assert_eq!(names, ["timeout", "requirepass", "port"]);
    config.publish(&draft);
    assert_eq!(values(&config), ("9".into(), "secret".into()));
    let error = SetError::refused("port", "Unable to listen on this port. Check server logs.");
    assert_eq!(
        String::from_utf8(error.line()).unwrap(),
        "ERR CONFIG SET failed (possibly related to argument 'port') - \
         Unable to listen on this port. Check server logs."
    );
}

#[test]
fn set_refuses_names() {
    let config = Config::new();
    let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'nosuch'";
    for (pairs, expected) in [
        (&["nosuch", "1"][..], unknown),
        (&["maxclients", "100", "nosuch", "1"], unknown),
        (&["nosuch", "1", "odd"], "ERR syntax error"),
        (
            &["maxclients", "100", "MAXCLIENTS", "1"],
            "ERR CONFIG SET failed (possibly related to argument 'MAXCLIENTS') - \
             duplicate parameter",
        ),
        (
            &["daemonize", "yes"],
            "ERR CONFIG SET failed (possibly related to argument 'daemonize') - \
             can't set immutable config",
        ),
        (
            &["dbfilename", "a"],
            "ERR CONFIG SET failed (possibly related to argument 'dbfilename') - \
             can't set protected config",
        ),
    ] {
        assert_eq!(set(&config, pairs).unwrap_err(), expected);
    }
    // An alias counts as a name of its own.
    set(&config, &["zset-max-listpack-entries", "100", "zset-max-ziplist-entries", "1"]).unwrap();
    assert_eq!(get(&config, "zset-max-listpack-entries"), "1");
}

#[test]
fn protected_options_open_by_another() {
    let config = load("enable-protected-configs local\n").config;
    let pairs: [&[u8]; 2] = [b"dbfilename", b"other.rdb"];
    assert!(config.set_many(&pairs, false).is_err());
    assert!(config.set_many(&pairs, true).is_ok());
    let path = set_one(&config, "dbfilename", "a/b").unwrap_err();
    assert_eq!(path, "dbfilename can't be a path, just a filename");
    let missing = set_one(&config, "dir", "/nonexistent").unwrap_err();
    assert_eq!(missing, "No such file or directory");
}

#[test]
fn get_matches_names_and_aliases() {
    let config = Config::new();
    let names = |patterns: &[&str]| -> Vec<String> {
        let patterns: Vec<&[u8]> = patterns.iter().map(|pattern| pattern.as_bytes()).collect();
        let found = config.matching(&patterns);
        found.into_iter().map(|(name, _)| String::from_utf8(name).unwrap()).collect()
    };
    assert_eq!(names(&["PORT", "port"]), ["PORT"]);
    assert_eq!(names(&["maxmemory*", "port", "maxmemory", "*memory-p*", "nosuch"]).len(), 6);
    assert_eq!(
        names(&["slave-*"]),
        [
            "slave-announce-ip",
            "slave-announce-port",
            "slave-ignore-maxmemory",
            "slave-lazy-flush",
            "slave-priority",
            "slave-read-only",
            "slave-serve-stale-data"
        ]
    );
    assert_eq!(names(&["rdb-key-save*"]), [""; 0]);
    assert_eq!(names(&["rdb-key-save-delay"]), ["rdb-key-save-delay"]);
}

#[test]
fn all_directives_of_the_others_are_known() {
    for name in ["redis-7.0.conf", "redis-8.2.conf", "valkey-9.1.conf", "stock.conf"] {
        load(&fixture(name));
    }
}

/// Directives whose defaults are our own; the decisions that are named say why.
const OWN_DEFAULTS: &[(&str, &str)] = &[
    // compaction.md: what is worth moving is known from within, and costs what it saves.
    ("activedefrag", "yes"),
    ("active-defrag-ignore-bytes", "1048576"),
    ("active-defrag-threshold-lower", "4"),
    // crash-reports.md: a report is made to be sent to others.
    ("hide-user-data-from-log", "yes"),
    // limits.md: what clients keep counts against the limit of memory.
    ("maxmemory-clients", "50%"),
];

#[test]
fn defaults_are_those_of_redis() {
    let config = Config::new();
    let stated = load(&fixture("redis-8.2.conf"));
    for line in fixture("redis-8.2.conf").lines() {
        let name = line.split(' ').next().unwrap();
        if !name.is_empty() && !name.starts_with('#') {
            let own = OWN_DEFAULTS.iter().find(|(known, _)| *known == name);
            let expected = own.map(|(_, default)| (*default).to_owned());
            let expected = expected.unwrap_or_else(|| get(&stated.config, name));
            assert_eq!(get(&config, name), expected, "{name}");
        }
    }
    assert_eq!(stated.notices, [""; 0]);
}

#[test]
fn notices_name_what_has_no_effect() {
    let startup = load("io-threads 4\nkey-memory-histograms yes\nmaxclients 5\nhz 10\n");
    let [accepted, later] = &startup.notices[..] else { panic!("{:?}", startup.notices) };
    assert!(accepted.starts_with("'io-threads' has no effect here: "), "{accepted}");
    assert!(later.starts_with("'key-memory-histograms' has no effect yet: "), "{later}");
}

#[test]
fn command_lines() {
    let startup = start(
        &[
            "--port",
            "7777",
            "--save",
            "--loglevel",
            "verbose",
            "--SERVER-THREADS",
            "3",
            "--bind",
            "127.0.0.1 ::1",
            "--shutdown-on-sigint",
            "nosave",
            "force",
            "--proc-title-template",
            "--my--title",
        ],
        "",
    )
    .unwrap();
    let config = &startup.config;
    assert_eq!(startup.show, StartupAction::Run);
    for (name, value) in [
        ("port", "7777"),
        ("save", ""),
        ("loglevel", "verbose"),
        ("worker-threads", "3"),
        ("bind", "127.0.0.1 ::1"),
        ("shutdown-on-sigint", "nosave force"),
        ("proc-title-template", "--my--title"),
    ] {
        assert_eq!(get(config, name), value);
    }
    for (arguments, show) in [
        (["-v"], StartupAction::Version),
        (["--version"], StartupAction::Version),
        (["-h"], StartupAction::Help),
        (["--help"], StartupAction::Help),
    ] {
        assert_eq!(start(&arguments, "").unwrap().show, show);
    }
}

#[test]
fn the_command_line_wins_over_input_and_file() {
    let scratch = Scratch::new("order");
    let file = scratch.path("a.conf");
    fs::write(&file, "port 1\ntimeout 2\nhz 3\nrename-command CONFIG \"\"\nuser bob on\n").unwrap();
    let path = file.to_str().unwrap();
    let startup = start(&[path, "--port", "11", "-"], "port 5\ntimeout 12\n").unwrap();
    assert_eq!(get(&startup.config, "port"), "11");
    assert_eq!(get(&startup.config, "timeout"), "12");
    assert_eq!(get(&startup.config, "hz"), "3");
    assert_eq!(startup.config.path(), Some(file.as_path()));
    assert_eq!(
        (&startup.renames[0].from[..], &startup.renames[0].to[..]),
        (&b"CONFIG"[..], &b""[..])
    );
    assert_eq!(startup.users[0].arguments, [b"bob".to_vec(), b"on".to_vec()]);
}

#[test]
fn refusals_say_where_and_why() {
    const UNKNOWN: &str = "Bad directive or wrong number of arguments";
    let place = "Reading the standard input, at line";
    let line = "Reading the command line >>>";
    for (arguments, input, expected) in [
        (&["-"][..], "port 1 2\n", format!("{place} 1 >>> 'port 1 2': wrong number of arguments")),
        (&["-"], "\n  foo bar\n", format!("{place} 2 >>> 'foo bar': {UNKNOWN}")),
        (&["--foo", "bar"], "", format!("{line} 'foo \"bar\"': {UNKNOWN}")),
        (&["--port"], "", format!("{line} 'port': wrong number of arguments")),
        (&["-p", "1"], "", format!("{line} '\"-p\" \"1\"': {UNKNOWN}")),
        (&["-", "-v"], "a\nb", format!("{place} 1 >>> 'a': {UNKNOWN}")),
        (
            &["-"],
            "maxmemory \"1\n",
            format!("{place} 1 >>> 'maxmemory \"1': Unbalanced quotes in configuration line"),
        ),
        (&["-"], "rename-command a\n", format!("{place} 1 >>> 'rename-command a': {UNKNOWN}")),
        (&["-"], "user\n", format!("{place} 1 >>> 'user': {UNKNOWN}")),
        (
            &["-"],
            "replicaof a\n",
            format!("{place} 1 >>> 'replicaof a': wrong number of arguments"),
        ),
        (
            &["-"],
            "replicaof a 99999\n",
            format!("{place} 1 >>> 'replicaof a 99999': Invalid master port"),
        ),
        (
            &["-"],
            "unixsocketperm 1000\n",
            format!(
                "{place} 1 >>> 'unixsocketperm 1000': argument must be between 0 and 777 inclusive"
            ),
        ),
        (
            &["-", "--hz", "1", "--port", "x"],
            "hz 1\nhz 2\n",
            format!("{line} 'port \"x\"': argument couldn't be parsed into an integer"),
        ),
    ] {
        assert_eq!(refusal(arguments, input), expected);
    }
    let missing = start(&["/nonexistent/a.conf"], "").err().unwrap().to_string();
    assert_eq!(
        missing,
        "Fatal error, can't open config file '/nonexistent/a.conf': No such file or directory"
    );
}

#[test]
fn includes() {
    let scratch = Scratch::new("include");
    let path = |name: &str| scratch.path(name).to_str().unwrap().to_owned();
    fs::write(path("b1.inc"), "port 1\n").unwrap();
    fs::write(path("b2.inc"), "port 2\nhz 7\n").unwrap();
    fs::write(path("bad.conf"), "\nport x\n").unwrap();
    fs::write(path("circle.conf"), format!("include {}\n", path("circle.conf"))).unwrap();
    let config = load(&format!("include {}\ntimeout 3\n", path("b?.inc"))).config;
    assert_eq!((get(&config, "port"), get(&config, "hz")), ("2".into(), "7".into()));
    assert_eq!(get(&load(&format!("include {}\n", path("no*.inc"))).config, "port"), "6379");
    let bad = refusal(&["-"], &format!("include {}\n", path("bad.conf")));
    assert!(bad.starts_with("Reading the configuration file, at line 2 of '"), "{bad}");
    assert!(refusal(&["-"], &format!("include {}\n", path("circle.conf"))).ends_with("circle"));
}

#[test]
fn rewrite_keeps_what_is_right() {
    let scratch = Scratch::new("rewrite");
    let file = scratch.path("apus.conf");
    let old = "# My server.\nport 7000\n\nmaxmemory 100mb # not a comment\n";
    fs::write(&file, old).unwrap();
    assert!(start(&[file.to_str().unwrap()], "").is_err(), "a # within a line is an argument");
    let old = "# My server.\nport 7000\n\nmaxmemory 1024kb\nsave 10 1\n\tsave 20 2\n# End.\n\
               slave-read-only no\nclient-output-buffer-limit normal 1 2 3\nunknown-to-us 1\n";
    let readable = old.replace("unknown-to-us 1\n", "");
    fs::write(&file, &readable).unwrap();
    let config = start(&[file.to_str().unwrap()], "").unwrap().config;
    fs::write(&file, old).unwrap();
    config.rewrite(None, |path, text| fs::write(path, text)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), old);

    set(&config, &["save", "30 3 40 4", "maxmemory", "2mb", "replica-read-only", "yes"]).unwrap();
    set(&config, &["notify-keyspace-events", "AKEn"]).unwrap();
    set(&config, &["masterauth", "a\r\nport 1 \"\u{e9}\0", "timeout", "5"]).unwrap();
    let users = [["default", "on", "nopass"].map(|word| word.as_bytes().to_vec()).to_vec()];
    config.rewrite(Some(&users), |path, text| fs::write(path, text)).unwrap();
    let new = fs::read_to_string(&file).unwrap();
    assert_eq!(
        new,
        "# My server.\nport 7000\n\nmaxmemory 2mb\nsave 30 3\nsave 40 4\n# End.\n\
         replica-read-only yes\nclient-output-buffer-limit normal 1 2 3\nunknown-to-us 1\n\
         # Generated by CONFIG REWRITE\n\
         timeout 5\nnotify-keyspace-events \"AnKE\"\n\
         masterauth \"a\\r\\nport 1 \\\"\\xc3\\xa9\\x00\"\nuser default on nopass\n"
    );
    // What was written says the same when it is read, and a second rewrite changes nothing.
    fs::write(&file, new.replace("unknown-to-us 1\n", "")).unwrap();
    let again = start(&[file.to_str().unwrap()], "").unwrap().config;
    for name in ["save", "maxmemory", "masterauth", "timeout", "replica-read-only"] {
        assert_eq!(again.show(name.as_bytes()), config.show(name.as_bytes()), "{name}");
    }
    again.rewrite(Some(&users), |path, text| fs::write(path, text)).unwrap();
    assert_eq!(fs::read_to_string(&file).unwrap(), new.replace("unknown-to-us 1\n", ""));
}

#[test]
fn rewrite_needs_a_file() {
    let error = Config::new().rewrite(None, |path, text| fs::write(path, text)).unwrap_err();
    assert_eq!(error, RewriteError::NoFile);
    assert_eq!(error.to_string(), "ERR The server is running without a config file");
}

#[test]
fn hostile_values_stay_within_their_line() {
    let scratch = Scratch::new("hostile");
    let file = scratch.path("apus.conf");
    for value in ["\n", "\nport 1\n", "\"", "'", "a\\", "\0", "\u{7f}\u{1b}[2J", "#", " ", "\r"] {
        fs::write(&file, "").unwrap();
        let config = start(&[file.to_str().unwrap()], "").unwrap().config;
        set(&config, &["requirepass", value, "bind", &format!("x{value}y")]).unwrap();
        config.rewrite(None, |path, text| fs::write(path, text)).unwrap();
        let again = start(&[file.to_str().unwrap()], "").unwrap().config;
        for name in ["requirepass", "bind", "port"] {
            assert_eq!(again.show(name.as_bytes()), config.show(name.as_bytes()), "{value:?}");
        }
    }
}
