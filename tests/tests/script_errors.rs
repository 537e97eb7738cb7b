//! Errors that scripts return: what INFO counts of them, and what the slow log tells of the
//! commands that scripts call. The figures are those of Redis 8.2.

use tests::render::{render, text};
use tests::{Client, Server, check};

use tests::server::eventually;

/// What a command answers, as text.
fn ask(client: &mut Client, words: &[&str]) -> String {
    text(&client.call(words))
}

/// A line of a section of INFO, from its name on.
fn info(client: &mut Client, section: &str, name: &str) -> String {
    let text = ask(client, &["INFO", section]);
    text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned()
}

/// What INFO has counted since the last reset: kinds of errors, all errors, failed EVALs.
fn counted(client: &mut Client) -> (Vec<String>, String, String) {
    let errors = ask(client, &["INFO", "errorstats"]);
    let errors = errors.lines().filter(|line| line.starts_with("errorstat_")).map(str::to_owned);
    let errors: Vec<String> = errors.collect();
    let total = info(client, "stats", "total_error_replies");
    let eval = info(client, "commandstats", "cmdstat_eval");
    let failed = eval.rsplit_once("failed_calls=").map_or_else(String::new, |(_, n)| n.into());
    (errors, total, failed)
}

#[test]
fn errors_that_a_script_returns_are_counted_as_others_are() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(&mut client, "> SET s abc\nOK\n");
    let cases: [(&str, &[&str], u64, u64); 13] = [
        ("return redis.error_reply('MY x')", &["MY:count=1"], 1, 1),
        ("return {err='MY x'}", &["MY:count=1"], 1, 1),
        ("return {err='noprefix'}", &["ERR:count=1"], 1, 1),
        (
            "return {1,{err='MY x'},redis.error_reply('YOUR x')}",
            &["MY:count=1", "YOUR:count=1"],
            2,
            1,
        ),
        ("return {map={a=redis.error_reply('MY x')}}", &["MY:count=1"], 1, 1),
        // The command has counted it; the script has failed all the same.
        ("return redis.pcall('incr','s')", &["ERR:count=1"], 1, 1),
        ("local e=redis.pcall('incr','s') return {err=e.err}", &["ERR:count=2"], 2, 1),
        ("redis.pcall('incr','s') return 1", &["ERR:count=1"], 1, 0),
        ("return redis.call('incr','s')", &["ERR:count=1"], 1, 1),
        ("error({err='MY boo'})", &["MY:count=1"], 1, 1),
        // Only a boolean says that an error was counted.
        ("return {err='MY x', ignore_error_stats_update=true}", &[], 0, 1),
        ("return {err='MY x', ignore_error_stats_update=1}", &["MY:count=1"], 1, 1),
        ("return {err='MY x', ignore_error_stats_update=false}", &["MY:count=1"], 1, 1),
    ];
    for (script, kinds, total, failed) in cases {
        check(&mut client, "> CONFIG RESETSTAT\nOK\n");
        client.call(&["EVAL", script, "0"]);
        let kinds: Vec<String> = kinds.iter().map(|kind| format!("errorstat_{kind}")).collect();
        let expected = (kinds, format!("total_error_replies:{total}"), failed.to_string());
        assert_eq!(counted(&mut client), expected, "{script}");
        check(&mut client, "> CONFIG RESETSTAT\nOK\n> MULTI\nOK\n");
        client.call(&["EVAL", script, "0"]);
        client.call(&["EXEC"]);
        assert_eq!(counted(&mut client), expected, "in a transaction: {script}");
    }
}

#[test]
fn an_error_of_client_unblock_is_counted() {
    let server = Server::start(&[]);
    let mut other = server.client();
    let mut blocked = server.client();
    let id = blocked.id();
    blocked.send(&["BLPOP", "nothing", "0"]);
    eventually("it waits", || {
        render(&other.call(&["CLIENT", "UNBLOCK", &id, "ERROR"])) == "(integer) 1"
    });
    assert!(text(&blocked.receive()).starts_with("UNBLOCKED "));
    assert_eq!(
        info(&mut other, "errorstats", "errorstat_UNBLOCKED"),
        "errorstat_UNBLOCKED:count=1"
    );
}

#[test]
fn made_up_kinds_of_errors_end_their_count_and_are_told_once() {
    let server = Server::start(&[]);
    let client = &mut server.client();
    for kind in 0..200 {
        client.call(&["EVAL", "return redis.error_reply(ARGV[1]..' x')", "0", &format!("K{kind}")]);
    }
    let errors = ask(client, &["INFO", "errorstats"]);
    assert_eq!(errors.trim(), "# Errorstats\r\nerrorstat_ERRORSTATS_DISABLED:count=1");
    assert_eq!(info(client, "stats", "total_error_replies"), "total_error_replies:200");
    let told = || server.log().matches("Errorstats stopped adding new errors").count();
    eventually("the log tells it", || told() > 0);
    assert_eq!(told(), 1);
    check(
        client,
        "
        > CONFIG RESETSTAT
        OK
        > EVAL \"return redis.error_reply('K1 x')\" 0
        (error) K1 x
        ",
    );
    assert_eq!(info(client, "errorstats", "errorstat_K1"), "errorstat_K1:count=1");
}

#[test]
fn the_slow_log_tells_of_the_commands_that_scripts_call() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(&mut client, "> CONFIG SET slowlog-log-slower-than 0\nOK\n> SLOWLOG RESET\nOK\n");
    let script = "redis.call('set',KEYS[1],'1') redis.pcall('incr',KEYS[2]) return 1";
    client.call(&["EVAL", script, "2", "a", "b"]);
    check(&mut client, "> CONFIG SET slowlog-log-slower-than -1\nOK\n");
    let entries = client.call(&["SLOWLOG", "GET", "10"]);
    let shown = render(&entries);
    let place = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text} in {shown}"));
    // The newest first, and the script behind what it called, with its client's address.
    let (eval, incr, set) = (place("\"EVAL\""), place("\"incr\""), place("\"set\""));
    assert!(eval < incr && incr < set, "{shown}");
}

#[test]
fn secrets_of_a_replica_are_shown_to_nobody() {
    let server = Server::start(&[]);
    let mut client = server.client();
    check(&mut client, "> CONFIG SET slowlog-log-slower-than 0\nOK\n");
    check(&mut client, "> CONFIG SET masteruser aa\nOK\n> CONFIG SET masterauth bb\nOK\n");
    let shown = render(&client.call(&["SLOWLOG", "GET", "10"]));
    assert_eq!(shown.matches("(redacted)").count(), 2, "{shown}");
}

/// H11: there is no debugger, and whose scripts were to run in one are refused.
#[test]
fn a_client_that_asked_for_a_debugger_changes_no_live_data() {
    let server = Server::start(&[]);
    check(
        &mut server.client(),
        "
        > SCRIPT DEBUG YES
        (error) ERR There is no debugger of scripts here: SCRIPT DEBUG takes NO only
        > EVAL \"return redis.call('set',KEYS[1],'x')\" 1 k
        (error) ERR There is no debugger of scripts here: SCRIPT DEBUG takes NO only
        > EXISTS k
        (integer) 0
        > SCRIPT DEBUG NO
        OK
        > EVAL \"return redis.call('set',KEYS[1],'x')\" 1 k
        OK
        ",
    );
}
