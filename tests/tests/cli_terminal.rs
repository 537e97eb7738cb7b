//! The prompt of `apus cli` on a pseudo-terminal: what is typed, shown, and kept.
//!
//! Invariant: what a test types next it types after it has seen the reply to what it typed before,
//! and where a prompt follows, that prompt.

use std::fs;
use std::io::{Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use tests::Server;
use tests::environment::binary;
use tests::server::eventually;

use crate::cli::populated;

/// A user at a terminal. The program has ended when the value is gone.
struct Terminal {
    child: Child,
    keys: Option<ChildStdin>,
    pieces: Receiver<Vec<u8>>,
    seen: String,
    /// What of it has been expected already.
    at: usize,
}

impl Terminal {
    fn open(server: &Server, pager: &str) -> Terminal {
        let program = binary();
        let port = server.port();
        let line = format!("stty rows 24 cols 132; exec {} cli -p {port}", program.display());
        let mut command = Command::new("script");
        command.args(["-qfec", &line, "/dev/null"]).env("HOME", server.folder());
        command.env("TERM", "xterm").env_remove("REDISCLI_AUTH").env("PAGER", pager);
        command.env("NO_COLOR", "1");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("script is part of Debian");
        let keys = child.stdin.take();
        let mut out = child.stdout.take().expect("it is piped");
        let (give, pieces) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = out.read(&mut buffer) {
                if give.send(buffer[..count].to_vec()).is_err() {
                    break;
                }
            }
        });
        let mut terminal = Terminal { child, keys, pieces, seen: String::new(), at: 0 };
        terminal.expect("> ");
        terminal
    }

    fn press(&mut self, keys: &str) {
        let input = self.keys.as_mut().expect("the terminal is open");
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).expect("somebody reads");
    }

    /// Waits until this is shown behind what was expected before.
    #[track_caller]
    fn expect(&mut self, text: &str) {
        eventually(&format!("{text:?} is shown"), || {
            for piece in self.pieces.try_iter() {
                self.seen.push_str(&String::from_utf8_lossy(&piece));
            }
            self.seen[self.at..].find(text).is_some_and(|found| {
                self.at += found + text.len();
                true
            })
        });
    }

    /// Types a line and waits for what it shows, and for the prompt behind that: the editor reads
    /// ahead, and what is typed before a prompt may be lost with what it has read.
    #[track_caller]
    fn line(&mut self, line: &str, shown: &str) {
        self.enter(line, shown);
        self.expect("> ");
    }

    /// Types a line and waits for what it shows, without a prompt behind it.
    #[track_caller]
    fn enter(&mut self, line: &str, shown: &str) {
        self.press(&format!("{line}\r"));
        self.expect(shown);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // The terminal is closed, which ends what runs on it.
        self.keys = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_prompt_says_what_the_server_has_confirmed() {
    let server = populated();
    let mut terminal = Terminal::open(&server, "cat");
    let place = format!("127.0.0.1:{}", server.port());
    terminal.line("GET number", "\"41\"");
    terminal.enter("SELECT 3", &format!("{place}[3]> "));
    terminal.enter("MULTI", &format!("{place}[3](TX)> "));
    terminal.enter("DISCARD", &format!("{place}[3]> "));
    terminal.enter("SELECT 0", &format!("{place}> "));
    terminal.press("GETRANGE");
    terminal.expect("key start end");
    terminal.line(" string 0 1", "\"\\x00\\xff\"");
    terminal.line("help getdel", "Returns the string value of a key after deleting the key");
    terminal.press("quit\r");
    eventually("the client ends", || terminal.child.try_wait().expect("a child").is_some());
}

#[test]
fn passwords_are_never_in_the_history() {
    let server = populated();
    let mut terminal = Terminal::open(&server, "cat");
    terminal.line("GET number", "\"41\"");
    terminal.line("CONFIG SET requirepass secret", "OK");
    terminal.line("AUTH secret", "OK");
    terminal.line("ACL SETUSER other on >secret", "OK");
    terminal.line("HELLO 2 AUTH default secret", "\"server\"");
    terminal.line("2 AUTH default secret", "OK");
    terminal.line("CONFIG SET maxmemory 0", "OK");
    terminal.line("CONFIG GET maxmemory", "\"maxmemory\"");
    let history = server.folder().join(".apus_cli_history");
    let kept = fs::read_to_string(history).expect("there is a history");
    assert!(kept.contains("GET number\n") && kept.contains("CONFIG SET maxmemory 0\n"), "{kept}");
    assert!(!kept.contains("secret"), "{kept}");
}

#[test]
fn streams_end_at_a_key_or_a_signal_and_the_prompt_comes_back() {
    let server = populated();
    let mut terminal = Terminal::open(&server, "cat");
    let place = format!("127.0.0.1:{}", server.port());
    terminal.enter("MONITOR", "OK");
    server.client().call(&["SET", "watched", "x"]);
    terminal.expect("\"SET\" \"watched\" \"x\"");
    terminal.press("\x03");
    terminal.expect("> ");
    terminal.line("GET number", "\"41\"");
    terminal.enter("SUBSCRIBE channel", "or any key to type command)");
    terminal.expect("3) (integer) 1");
    server.client().call(&["PUBLISH", "channel", "hi"]);
    terminal.expect("3) \"hi\"");
    terminal.press(" ");
    terminal.expect(&format!("{place}(subscribed mode)> "));
    terminal.enter("UNSUBSCRIBE", &format!("{place}> "));
    terminal.line("GET number", "\"41\"");
}

#[test]
fn long_replies_are_paged() {
    let server = populated();
    let mut client = server.client();
    (0..100).for_each(|number| drop(client.call(&["RPUSH", "long", &number.to_string()])));
    // The pager shows that it was given all of the reply.
    let mut terminal = Terminal::open(&server, "grep -c .");
    terminal.line("LRANGE long 0 -1", "\n100\r\n");
    terminal.line("GET number", "\"41\"");
    terminal.line(":set nopager", "\n");
    terminal.line("LRANGE long 0 -1", "100) \"99\"");
}

#[test]
fn colours_are_a_preference() {
    let server = populated();
    let mut terminal = Terminal::open(&server, "cat");
    terminal.line(":set colors", "\n");
    terminal.line("GET number", "\x1b[32m\"41\"\x1b[0m");
    terminal.line("INCR number", "\x1b[33m(integer) 42\x1b[0m");
    terminal.line(":set nocolors", "\n");
    terminal.line("GET number", "\n\"42\"");
}
