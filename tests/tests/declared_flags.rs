//! What scripts and functions say of themselves is what the gates of memory and of the disk go by,
//! as with Redis: where they come alone, are queued, and for EXEC as a whole, so that no half of a
//! transaction is done.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use tests::render::{render, text};
use tests::server::eventually;
use tests::{Client, Oracle, Server};

const LIBRARY: &str = "#!lua name=l
local f = function() return 1 end
redis.register_function('w', f)
redis.register_function{function_name='n', callback=f, flags={'no-writes'}}
redis.register_function{function_name='o', callback=f, flags={'allow-oom'}}";

const WRITES: &str = "#!lua\nreturn 2";
const READS: &str = "#!lua flags=no-writes\nreturn 2";

/// Of EVALSHA the second word is the script.
const PROGRAMS: &[[&str; 3]] = &[
    ["EVAL", "#!lua\nreturn 1", "0"],
    ["EVAL", "#!lua flags=no-writes\nreturn 1", "0"],
    ["EVAL", "#!lua flags=allow-oom\nreturn 1", "0"],
    ["EVAL", "#!lua flags=no-writes,allow-oom\nreturn 1", "0"],
    ["EVAL", "return 1", "0"],
    ["EVAL", "#!lua\nreturn 1", "x"],
    ["EVAL", "#!lua\nreturn 1", "-1"],
    ["EVAL", "#!lua flags=unknown\nreturn 1", "0"],
    ["EVAL", "#!lua\nreturn syntax (", "0"],
    ["EVAL_RO", "#!lua\nreturn 1", "0"],
    ["EVAL_RO", "#!lua flags=allow-oom\nreturn 1", "0"],
    ["EVAL_RO", "#!lua flags=no-writes\nreturn 1", "0"],
    ["EVAL_RO", "return 1", "0"],
    ["EVALSHA", WRITES, "0"],
    ["EVALSHA", READS, "0"],
    ["EVALSHA", "never loaded", "0"],
    ["EVALSHA_RO", WRITES, "0"],
    ["EVALSHA_RO", READS, "0"],
    ["FCALL", "w", "0"],
    ["FCALL", "n", "0"],
    ["FCALL", "o", "0"],
    ["FCALL", "W", "0"],
    ["FCALL", "none", "0"],
    ["FCALL", "w", "x"],
    ["FCALL_RO", "w", "0"],
    ["FCALL_RO", "n", "0"],
    ["FCALL_RO", "o", "0"],
];

/// What shuts a gate, and opens it.
const GATES: &[[&str; 3]] =
    &[["maxmemory", "1", "0"], ["stop-writes-on-bgsave-error", "yes", "no"]];

#[derive(Clone, Copy, Debug)]
enum Way {
    Alone,
    /// Behind a command that writes and takes no memory, in one packet with it and EXEC.
    Queued,
    /// Queued behind others for the same command, in one packet.
    Behind,
    /// The gate shuts before EXEC.
    AtExec,
}

fn words(request: &[&str]) -> Vec<String> {
    request.iter().map(|&word| word.to_owned()).collect()
}

/// A server whose snapshots fail, with all that is to be run.
fn start(oracle: Option<Oracle>) -> Server {
    let arguments = ["--save", "3600 1000000", "--stop-writes-on-bgsave-error", "no"];
    let server = match oracle {
        Some(oracle) => oracle.start(&arguments),
        None => Server::start(&arguments),
    };
    let mut client = server.client();
    client.call(&["FUNCTION", "LOAD", LIBRARY]);
    std::fs::create_dir(server.folder().join("dump.rdb")).unwrap();
    client.call(&["BGSAVE"]);
    eventually("it fails", || client.info("rdb_last_bgsave_status") == "err");
    server
}

fn request(client: &mut Client, program: [&str; 3]) -> Vec<String> {
    let mut request = words(&program);
    if program[0].starts_with("EVALSHA") {
        request[1] = match program[1] {
            "never loaded" => "f".repeat(40),
            script => text(&client.call(&["SCRIPT", "LOAD", script])),
        };
    }
    request
}

/// The replies, whether the key that the transaction deletes is left, and how all was counted.
fn outcome(
    [admin, client]: &mut [Client; 2],
    request: &[String],
    [name, shut, open]: [&str; 3],
    way: Way,
) -> Vec<String> {
    admin.call(&["SET", "z", "1"]);
    admin.call(&["CONFIG", "RESETSTAT"]);
    let request = || request.to_vec();
    let [multi, del, exec] = [&["MULTI"][..], &["DEL", "z"], &["EXEC"]].map(words);
    let mut replies = Vec::new();
    if let Way::AtExec = way {
        replies = client.pipeline(&[multi.clone(), del.clone(), request()]);
    }
    admin.call(&["CONFIG", "SET", name, shut]);
    replies.extend(match way {
        Way::Alone => client.pipeline(&[request()]),
        Way::Queued => client.pipeline(&[multi, del, request(), exec]),
        Way::Behind => {
            let request = request();
            let mut first = request.clone();
            if request[0] == "EVAL" {
                "return 1".clone_into(&mut first[1]);
            }
            client.pipeline(&[multi, first, request.clone(), request, exec])
        }
        Way::AtExec => client.pipeline(&[exec]),
    });
    admin.call(&["CONFIG", "SET", name, open]);
    let counts = text(&admin.call(&["INFO", "commandstats"]));
    let is_own = |line: &&str| ["eval", "fcall", "exec"].iter().any(|name| line.contains(name));
    let mut counts: Vec<_> = counts.lines().filter(is_own).map(without_times).collect();
    counts.sort();
    let left = render(&admin.call(&["EXISTS", "z"]));
    replies.iter().map(render).chain([left]).chain(counts).collect()
}

fn without_times(line: &str) -> String {
    line.split(',').filter(|part| !part.starts_with("usec")).collect::<Vec<_>>().join(",")
}

#[test]
fn the_gates_of_memory_and_disk_go_by_what_programs_say_of_themselves() {
    let servers = [start(None), start(Some(Oracle::Redis82))];
    let mut clients = servers.each_ref().map(|server| [server.client(), server.client()]);
    for &gate in GATES {
        for &program in PROGRAMS {
            let request = clients.each_mut().map(|[admin, _]| request(admin, program));
            assert_eq!(request[0], request[1]);
            for way in [Way::Alone, Way::Queued, Way::Behind, Way::AtExec] {
                let [ours, theirs] =
                    clients.each_mut().map(|clients| outcome(clients, &request[0], gate, way));
                assert_eq!(ours, theirs, "{gate:?} {program:?} {way:?}");
            }
        }
    }
}
