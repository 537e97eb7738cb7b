//! The black-box tests: what clients see of the server, a file for each command family and each
//! promise. They are one program, since to build one for each file takes longer than to run it.
//!
//! Invariant: each file beside this one is part of it.

mod acl;
mod acl_duel;
mod append_only;
mod array_tokens;
mod arrays;
mod atomic;
mod backup;
mod begun_again;
mod blocked;
mod blocking;
mod blocking_disturbed;
mod both_protocols;
mod both_ways;
mod busy;
mod change_counts;
mod client_eviction;
mod client_figures;
mod client_list;
mod client_pause;
mod clients;
mod clock;
mod command;
mod compaction;
mod company;
mod config;
mod connection;
mod crash;
mod databases;
mod debug;
mod departures;
mod differential;
mod direct_scripts;
mod doubles;
mod dump;
mod dump_containers;
mod dump_streams;
mod error_bytes;
mod eviction;
mod expired_events;
mod full_disk;
mod functions;
mod generic;
mod geo;
mod half_done;
mod hashes;
mod held_keys;
mod hostile;
mod hostile_containers;
mod hostile_files;
mod hostile_sizes;
mod import_mode;
mod in_effect;
mod info_persistence;
mod instants;
mod large_values;
mod latency;
mod linearizable;
mod lists;
mod load_rules;
mod loading;
mod logs_of_peers;
mod long_replies;
mod mailboxes;
mod member_scan;
mod memcached;
mod memcached_clients;
mod memcached_command_line;
mod memcached_duel;
mod memory;
mod memory_account;
mod never_wait;
mod notifications;
mod one_writer;
mod pipelined_scripts;
mod pipelines;
mod preload;
mod protected;
mod protocol;
mod pubsub;
mod pubsub_delivery;
mod reload_beside_writers;
mod renamed;
mod saves_in_turn;
mod scan;
mod script_commands;
mod script_duel;
mod script_errors;
mod scripts;
mod serializable;
mod server;
mod session_lives;
mod sets;
mod smoke;
mod snapshot_files;
mod snapshots;
mod sort;
mod sorted_sets;
mod startup;
mod sticky;
mod strangers;
mod stream_tokens;
mod streams;
mod streams_waiting;
mod strings;
mod strings_newer;
mod tools;
mod tracking;
mod tracking_copies;
mod tracking_redirection;
mod tracking_table;
mod transaction_errors;
mod transactions;
mod users;
mod waiting_members;
mod watch;
mod watch_races;
mod workers;

use std::collections::BTreeSet;
use std::path::Path;

#[test]
fn no_file_is_left_out() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let entries = std::fs::read_dir(&folder).expect("the tests' own folder");
    let names = entries.map(|entry| entry.expect("an entry of it").file_name());
    let files: BTreeSet<String> = names
        .map(|name| name.to_string_lossy().trim_end_matches(".rs").to_owned())
        .filter(|name| name != "main")
        .collect();
    let modules = include_str!("main.rs").lines();
    let modules = modules.filter_map(|line| line.strip_prefix("mod ")?.strip_suffix(';'));
    assert_eq!(modules.map(str::to_owned).collect::<BTreeSet<_>>(), files);
}
