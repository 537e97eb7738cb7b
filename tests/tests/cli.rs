//! `apus cli` beside redis-cli: the same command lines and sessions through both, compared by
//! their bytes and exit codes; and `apus ping`.
//!
//! Invariant: what is compared has no time and no id in it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

use tests::environment::{binary, recorded};
use tests::server::free_port;
use tests::{Server, check};

/// A program with its first words, away from the user's own files.
pub(crate) fn program(words: &[&str], server: &Server) -> Command {
    let mut command = match words {
        ["redis-cli", ..] => Command::new(recorded("redis_cli")),
        _ => Command::new(binary()),
    };
    command.args(&words[1..]).args(["-p", &server.port().to_string()]);
    command.env_remove("REDISCLI_AUTH").env("HOME", server.folder());
    command
}

/// The two programs, as their first words.
pub(crate) const BOTH: [&[&str]; 2] = [&["redis-cli"], &["apus", "cli"]];

/// What both print, and how both end, with these words and this input; each has a server of its
/// own, in the same state.
#[track_caller]
pub(crate) fn same(words: &[&str], input: &str) {
    let [theirs, ours] = BOTH.map(|which| {
        let server = populated();
        let mut command = program(which, &server);
        fed(command.args(words), input)
    });
    assert_eq!(told(&ours), told(&theirs), "{words:?} {input:?}");
}

/// What a program prints on both outputs, and how it ends.
pub(crate) fn told(output: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr), output.status.code())
}

/// What a program does with this input.
pub(crate) fn fed(command: &mut Command, input: &str) -> Output {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it is installed");
    let mut stdin = child.stdin.take().expect("it is piped");
    // A program that does not read may be gone already.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("a child can be waited for")
}

/// A server with a key of each type.
pub(crate) fn populated() -> Server {
    let server = Server::start(&["--enable-debug-command yes"]);
    check(
        &mut server.client(),
        r#"
        > RPUSH list a "b\nc" "\"quoted\""
        (integer) 3
        > HSET hash field value
        (integer) 1
        > ZADD sorted 1.5 one 2 two
        (integer) 2
        > SADD set member
        (integer) 1
        > SET string "\x00\xff\t"
        OK
        > SET number 41
        OK
        "#,
    );
    server
}

#[test]
fn replies_are_formatted_as_by_redis_cli() {
    let commands = [
        "GET string",
        "GET number",
        "GET nothing",
        "INCR number",
        "LRANGE list 0 -1",
        "LRANGE nothing 0 -1",
        "HGETALL hash",
        "HGETALL nothing",
        "ZRANGE sorted 0 -1 WITHSCORES",
        "SMEMBERS set",
        "MGET number nothing string",
        "GET list",
        "NOSUCH command",
        "EVAL return{1,{2,{3,'x'},{}},'y'} 0",
        "COMMAND INFO get",
        "CONFIG GET maxmemory-*",
        "DEBUG PROTOCOL verbatim",
        "DEBUG PROTOCOL double",
        "DEBUG PROTOCOL true",
        "DEBUG PROTOCOL null",
        "DEBUG PROTOCOL map",
        "DEBUG PROTOCOL set",
        "CLUSTER INFO",
        "QUIT",
    ];
    let forms: [&[&str]; 7] = [
        &["--no-raw"],
        &["--raw"],
        &["--csv"],
        &["--json"],
        &["-3", "--no-raw"],
        &["-3", "--csv"],
        &["-2", "--json"],
    ];
    let servers = BOTH.map(|_| populated());
    for (command, form) in commands.iter().flat_map(|it| forms.iter().map(move |form| (it, form))) {
        let words: Vec<&str> = command.split(' ').collect();
        let [theirs, ours] = [0, 1]
            .map(|at| told(&fed(program(BOTH[at], &servers[at]).args(*form).args(&words), "")));
        assert_eq!(ours, theirs, "{form:?} {command}");
    }
}

#[test]
fn flags_do_what_they_do_in_redis_cli() {
    for words in [
        &["-r", "3", "INCR", "number"][..],
        &["-r", "2", "-i", "0.01", "LRANGE", "list", "0", "-1"],
        &["-d", "X", "-D", "Y", "LRANGE", "list", "0", "-1"],
        &["--quoted-input", "SET", "\"\\x41\"", "v"],
        &["-n", "3", "--no-raw", "KEYS", "*"],
        &["-n", "99", "PING"],
        &["-e", "NOSUCH"],
        &["-e", "PING"],
        &["-a", "wrong", "PING"],
        &["-a", "wrong", "--no-auth-warning", "PING"],
        &["--user", "nobody", "--pass", "wrong", "PING"],
        &["--scan", "--pattern", "s?t"],
        &["--no-raw", "--scan", "--pattern", "s?t"],
    ] {
        same(words, "");
    }
    same(&["-x", "SET", "new"], "of the input");
    same(&["-X", "tag", "SET", "tag", "x"], "name");
}

#[test]
fn sessions_go_as_in_redis_cli() {
    let session = "SET a 1\nGET a\n\n   \n3 INCR a\n-3 INCR a\n\"unbalanced\nNOSUCH\n:foo\n\
                   select 3\nselect 99\nDBSIZE\nMULTI\nGET a\nNOSUCH\nEXEC\nMULTI\nSET a 2\nEXEC\n\
                   HGETALL nothing\nMULTI\nDISCARD\nclear\nconnect 127.0.0.1\nquit\nGET a\n";
    for form in [&["--no-raw"][..], &["--raw"], &["--csv"], &["-3", "--no-raw"]] {
        same(form, session);
    }
}

#[test]
fn scripts_come_from_files() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let file = folder.path().join("script.lua");
    std::fs::write(&file, "return {KEYS, ARGV}").expect("a file");
    let file = file.to_str().expect("text");
    for words in [&["a", ",", "b", "c"][..], &["a", "b"], &[",", "a"], &[]] {
        same(&[&["--json", "--eval", file], words].concat(), "");
    }
    same(&["--eval", "/nonexistent.lua"], "");
}

#[test]
fn a_server_that_is_not_there_is_told_and_fails() {
    let server = populated();
    let absent = free_port().to_string();
    let [theirs, ours] =
        BOTH.map(|which| told(&fed(program(which, &server).args(["-p", &absent, "PING"]), "")));
    assert_eq!(ours, theirs);
    let ping = |words: &[&str]| told(&fed(program(&["apus", "ping"], &server).args(words), ""));
    assert_eq!(ping(&[]), ("PONG\n".to_owned(), String::new(), Some(0)));
    let refused = format!("Could not connect to Redis at 127.0.0.1:{absent}: Connection refused\n");
    assert_eq!(ping(&["-p", &absent]), (String::new(), refused, Some(1)));
    server.client().call(&["CONFIG", "SET", "requirepass", "secret"]);
    let (out, why, code) = ping(&[]);
    assert!(out.is_empty() && why.starts_with("NOAUTH") && code == Some(1), "{why}");
    assert_eq!(ping(&["-a", "secret", "--no-auth-warning"]).2, Some(0));
}
