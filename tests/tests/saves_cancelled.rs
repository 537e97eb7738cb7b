//! Saves that are called off, and what must not be: the file that follows a FLUSHALL, the last
//! save, a client's own.

use tests::render::render;
use tests::server::eventually;
use tests::{Client, Oracle, Server, check};

/// So long a save of one key takes that nobody waits for its end.
const NEVER: &str = "100000000";

const NONE: &str = "(error) ERR Background saving is currently not in progress or scheduled";

/// One that saves by itself, and whose file holds a key.
fn with_file() -> Server {
    let server = Server::start(&["--save", "3600 1", "--enable-debug-command", "yes"]);
    check(&mut server.client(), "> SET old 1\nOK\n> SAVE\nOK\n");
    server
}

fn delay(client: &mut Client, micros: &str) {
    client.call(&["CONFIG", "SET", "rdb-key-save-delay", micros]);
}

fn until_saving(client: &mut Client) {
    eventually("a save begins", || client.info("rdb_bgsave_in_progress") == "1");
}

/// Has everything replaced by one key; the reply waits for a file that takes for ever.
fn flush(server: &Server) -> Client {
    let mut client = server.client();
    delay(&mut client, NEVER);
    check(&mut client, "> MULTI\nOK\n> FLUSHALL\nQUEUED\n> SET new 1\nQUEUED\n");
    client.send(&["EXEC"]);
    until_saving(&mut server.client());
    client
}

/// The process ends without a save, and this client was told nothing before.
fn end_untold(server: Server, mut client: Client) {
    server.client().send(&["SHUTDOWN", "NOSAVE"]);
    assert_eq!(client.receive_to_close(), b"", "the file has not followed");
    assert!(server.wait().success());
}

#[test]
fn a_flush_is_not_told_of_when_the_process_ends_before_the_file_has_followed() {
    for _ in 0..5 {
        let server = with_file();
        let flusher = flush(&server);
        end_untold(server, flusher);
    }
}

#[test]
fn the_save_of_a_flush_is_not_cancelled() {
    let server = with_file();
    let flusher = flush(&server);
    check(&mut server.client(), &format!("> BGSAVE CANCEL\n{NONE}\n"));
    end_untold(server, flusher);
}

#[test]
fn an_end_that_is_called_off_leaves_a_flush_to_the_next_save() {
    let mut server = with_file();
    let flusher = flush(&server);
    let mut ender = server.client();
    ender.send(&["SHUTDOWN"]);
    server.wait_for_log("Saving the final RDB snapshot before exiting.");
    let mut other = server.client();
    eventually("the end is called off", || render(&other.call(&["SHUTDOWN", "ABORT"])) == "OK");
    assert_eq!(render(&ender.receive()), "(error) ERR Errors trying to SHUTDOWN. Check logs.");
    until_saving(&mut other);
    end_untold(server, flusher);
}

#[test]
fn the_next_save_has_the_flush_told_of() {
    let mut server = with_file();
    let mut flusher = flush(&server);
    let mut ender = server.client();
    ender.send(&["SHUTDOWN"]);
    server.wait_for_log("Saving the final RDB snapshot before exiting.");
    let mut other = server.client();
    eventually("a last save is under way", || other.info("current_save_keys_total") == "1");
    eventually("the end is called off", || render(&other.call(&["SHUTDOWN", "ABORT"])) == "OK");
    // Only now: a save that is done before it is called off ends the process.
    delay(&mut other, "0");
    check(&mut server.client(), "> GET new\n\"1\"\n");
    assert_eq!(render(&flusher.receive()), "1) OK\n2) OK");
    server.kill();
    server.restart();
    check(&mut server.client(), "> MGET old new\n1) (nil)\n2) \"1\"\n");
}

/// A save that somebody else began is no failure of the disk.
#[test]
fn an_end_is_not_kept_up_by_a_save_that_follows_the_one_it_gave_up() {
    let mut server = with_file();
    let mut client = server.client();
    delay(&mut client, NEVER);
    client.send(&["SAVE"]);
    until_saving(&mut server.client());
    // This save holds what is removed now, so that another one is to follow.
    let mut flusher = server.client();
    check(&mut flusher, "> MULTI\nOK\n> FLUSHALL\nQUEUED\n> SET new 1\nQUEUED\n");
    flusher.send(&["EXEC"]);
    let mut other = server.client();
    eventually("it is flushed", || render(&other.call(&["EXISTS", "old"])) == "(integer) 0");
    server.client().send(&["SHUTDOWN"]);
    server.wait_for_log("Saving the final RDB snapshot before exiting.");
    end_untold(server, flusher);
}

#[test]
fn only_what_is_in_the_background_can_be_cancelled() {
    let ways: [&[&str]; 3] = [&["SAVE"], &["SHUTDOWN", "SAVE"], &["DEBUG", "RELOAD"]];
    for words in ways {
        let server = with_file();
        let (mut client, mut other) = (server.client(), server.client());
        delay(&mut client, NEVER);
        client.send(words);
        until_saving(&mut other);
        check(&mut other, &format!("> BGSAVE CANCEL\n{NONE}\n"));
        assert_eq!(other.info("rdb_bgsave_in_progress"), "1", "{words:?}");
        other.send(&["SHUTDOWN", "NOSAVE"]);
        assert!(server.wait().success());
    }
}

#[test]
fn what_comes_right_behind_a_flush_finds_its_save_over() {
    let options = ["--save", "3600 1", "--enable-debug-command", "yes"];
    for server in &Oracle::Redis82.beside(&options) {
        let mut client = server.client();
        // Long enough to be under way when the next command comes.
        delay(&mut client, "200000");
        for (words, told) in [
            (vec!["SAVE"], "OK"),
            (vec!["BGSAVE"], "Background saving started"),
            (vec!["BGSAVE", "SCHEDULE"], "Background saving started"),
            (vec!["DEBUG", "RELOAD"], "OK"),
            (vec!["BGREWRITEAOF"], "Background append only file rewriting started"),
        ] {
            check(&mut client, "> SET old 1\nOK\n");
            let unit = [vec!["MULTI"], vec!["FLUSHALL"], vec!["SET", "new", "1"], vec!["EXEC"]];
            let replies = client.pipeline(&[&unit[..], std::slice::from_ref(&words)].concat());
            assert_eq!(render(&replies[3]), "1) OK\n2) OK");
            assert_eq!(render(&replies[4]), told, "{words:?}");
            eventually("it is over", || {
                let fields = ["rdb_bgsave_in_progress", "aof_rewrite_in_progress"];
                fields.iter().all(|field| client.info(field) == "0")
            });
            check(&mut client, "> MGET old new\n1) (nil)\n2) \"1\"\n");
        }
    }
}
