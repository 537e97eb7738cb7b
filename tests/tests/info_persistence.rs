//! What INFO says of the files, as the real servers say it: at a start, after changes, saves and
//! rewrites, and after a start from what they left.

use std::collections::BTreeMap;

use tests::render::text;
use tests::server::eventually;
use tests::{Client, Oracle, Server};

/// Fields whose values do not depend on time or on how values lie in memory.
const FIELDS: &[&str] = &[
    "loading",
    "async_loading",
    "current_save_keys_processed",
    "current_save_keys_total",
    "rdb_changes_since_last_save",
    "rdb_bgsave_in_progress",
    "rdb_last_bgsave_status",
    "rdb_current_bgsave_time_sec",
    "rdb_saves",
    "rdb_last_load_keys_expired",
    "rdb_last_load_keys_loaded",
    "aof_enabled",
    "aof_rewrite_in_progress",
    "aof_rewrite_scheduled",
    "aof_current_rewrite_time_sec",
    "aof_last_bgrewrite_status",
    "aof_rewrites",
    "aof_rewrites_consecutive_failures",
    "aof_last_write_status",
    "aof_pending_rewrite",
    "aof_buffer_length",
    "aof_pending_bio_fsync",
    "module_fork_in_progress",
];

/// Which fields there are, with the values of those that are compared.
fn told(server: &Server) -> BTreeMap<String, String> {
    let mut client = server.client();
    settle(&mut client);
    let info = text(&client.call(&["INFO", "persistence"]));
    let pairs = info.lines().filter_map(|line| line.trim_end().split_once(':'));
    let shown = |(name, value): (&str, &str)| {
        let value = if FIELDS.contains(&name) { value } else { "" };
        (name.to_owned(), value.to_owned())
    };
    pairs.map(shown).collect()
}

/// Waits until neither a snapshot nor a rewrite is under way, and all is written.
fn settle(client: &mut Client) {
    eventually("the background is quiet", || {
        let info = text(&client.call(&["INFO", "persistence"]));
        let fields =
            ["rdb_bgsave_in_progress:0", "aof_rewrite_in_progress:0", "aof_rewrite_scheduled:0"];
        let is_written = !info.contains("aof_buffer_length:")
            || info.contains("aof_buffer_length:0") && info.contains("aof_pending_bio_fsync:0");
        fields.iter().all(|field| info.contains(field)) && is_written
    });
}

/// What is done to both servers, one after the other; `!` ends them with a signal that leaves no
/// time for anything, and starts them again.
const STEPS: &[&str] = &[
    "PING",
    "MSET a 1 b 2",
    "DEL a nosuch",
    "RPUSH list 1 2 3",
    "BGSAVE",
    "SET c 3",
    "!",
    "SET d 4",
    "SAVE",
    "!",
    "BGREWRITEAOF",
    "SET e 5",
    "SET f 6",
    "!",
    "PING",
    "CONFIG SET appendonly no",
    "SET g 7",
    "CONFIG SET appendonly yes",
    "SET h 8",
    "FLUSHALL",
];

#[test]
fn info_says_of_the_files_what_the_real_servers_say() {
    let mut differences = Vec::new();
    for oracle in Oracle::ALL {
        for log in ["yes", "no"] {
            let mut servers =
                oracle.beside(&["--appendonly", log, "--appendfsync", "always", "--save", ""]);
            for (number, step) in STEPS.iter().enumerate() {
                for server in &mut servers {
                    if *step == "!" {
                        settle(&mut server.client());
                        server.kill();
                        server.restart();
                    } else {
                        server.client().call(&step.split(' ').collect::<Vec<_>>());
                    }
                }
                let [ours, theirs] = servers.each_ref().map(told);
                for (name, theirs) in theirs {
                    let ours = ours.get(&name);
                    if ours != Some(&theirs) {
                        let place = format!("appendonly {log}, step {number}: {step}");
                        let told = format!("{name} is {ours:?} and not {theirs:?}");
                        differences.push(format!("{oracle:?}, {place}: {told}"));
                    }
                }
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

#[test]
fn what_counts_saves_and_rewrites_begins_again_with_the_statistics() {
    for server in [Server::start(&["--save", ""]), Oracle::redis82()] {
        let mut client = server.client();
        let count = |client: &mut Client, name: &str| {
            let info = text(&client.call(&["INFO", "persistence"]));
            let line = info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
            line.unwrap_or_else(|| panic!("no {name}")).trim().to_owned()
        };
        client.call(&["SAVE"]);
        client.call(&["BGREWRITEAOF"]);
        settle(&mut client);
        for name in ["rdb_saves", "aof_rewrites"] {
            eventually(name, || count(&mut client, name) == "1");
        }
        client.call(&["CONFIG", "RESETSTAT"]);
        for name in ["rdb_saves", "aof_rewrites"] {
            assert_eq!(count(&mut client, name), "0", "{name}");
        }
    }
}
