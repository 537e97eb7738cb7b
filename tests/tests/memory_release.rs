//! What clients brought about and is gone takes no memory, whichever thread had it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::server::eventually;
use tests::{Client, Server, check};

const KILOBYTE: i64 = 1024;

/// A script that is too much for a worker, so that a heavy-work thread compiles it, too.
const HEAVY: &str = "for i = 1, 300000 do local _ = i * 2 end return ";

#[test]
fn what_idle_threads_compiled_goes_with_its_scripts_and_libraries() {
    let server = Server::start(&["--worker-threads", "3", "--save", ""]);
    // More connections than workers, so that each worker has some.
    let mut clients: Vec<Client> = (0..9).map(|_| server.client()).collect();
    for round in 0..2 {
        for (number, client) in clients.iter_mut().enumerate() {
            client.call(&["EVAL", &format!("{HEAVY} {number}"), "0"]);
            for script in 0..200 {
                // One that is not run without Lua.
                let script = format!(
                    "local t = {{}} for i = 1, 3 do t[i] = {script} end return t[{number}]"
                );
                client.call(&["EVAL", &script, "0"]);
            }
        }
        let taken = clients[0].figure("used_memory_lua");
        assert!(taken > 300 * KILOBYTE, "round {round}: {taken}");
        check(&mut clients[8], "> SCRIPT FLUSH\nOK");
        // No client runs a script any more.
        eventually("scripts are forgotten", || {
            clients[0].figure("used_memory_lua") < 150 * KILOBYTE
        });
    }
    for library in 0..100 {
        let text = format!(
            "#!lua name=l{library}\nredis.register_function('f{library}', function() \
             local t = {{}} for i = 1, 3 do t[i] = i end return t end)"
        );
        clients[0].call(&["FUNCTION", "LOAD", &text]);
    }
    for client in &mut clients {
        (0..100).for_each(|library| _ = client.call(&["FCALL", &format!("f{library}"), "0"]));
    }
    assert!(clients[0].figure("used_memory_vm_functions") > 50 * KILOBYTE);
    check(&mut clients[1], "> FUNCTION FLUSH\nOK");
    eventually("libraries are forgotten", || {
        clients[0].figure("used_memory_vm_functions") < 30 * KILOBYTE
    });
    check(&mut clients[2], "> EVAL \"return 7\" 0\n(integer) 7");
}

#[test]
fn what_a_client_waited_for_watched_or_subscribed_to_goes_with_it() {
    let server = Server::start(&["--save", ""]);
    let mut client = server.client();
    let names: Vec<String> = (0..30_000).map(|number| format!("name:{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for (command, last) in
        [("WATCH", None), ("BLPOP", Some("0")), ("SUBSCRIBE", None), ("PSUBSCRIBE", None)]
    {
        let before = client.figure("used_memory");
        let mut other = server.client();
        let words = [command].into_iter().chain(names.iter().copied()).chain(last);
        other.send(&words.collect::<Vec<_>>());
        eventually("all of it is there", || {
            let field = match command {
                "WATCH" => "total_watched_keys",
                "BLPOP" => "total_blocking_keys",
                "SUBSCRIBE" => "pubsub_channels",
                _ => "pubsub_patterns",
            };
            client.figure(field) == names.len() as i64
        });
        assert!(client.figure("used_memory") > before + 1000 * KILOBYTE, "{command}");
        drop(other);
        eventually("its room is given back", || {
            client.figure("used_memory") < before + 400 * KILOBYTE
        });
    }
}
