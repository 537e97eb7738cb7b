//! The rooms inside `server`, read from the code: which file belongs to which, which imports run
//! up, how wide the widest circle of files is, and which type names stand for two things.
//!
//! Invariant: an import that runs up fails, and a file that no room names. The other figures are
//! ratchets: one that rises fails, and so does one that falls below its pin, which is then to be
//! lowered.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

const SERVER: &str = "crates/server/src/";

/// A part of the server, from the lowest to the highest.
struct Room {
    name: &'static str,
    /// Its files and folders; of two rooms that name a file the longer name counts.
    places: &'static [&'static str],
}

const ROOMS: &[Room] = &[
    Room {
        name: "runtime",
        places: &[
            "write_gate.rs",
            "version.rs",
            "replace_file.rs",
            "cores.rs",
            "cores/",
            "counters.rs",
            "counting_waker.rs",
            "startup/limits.rs",
            "startup/memory.rs",
            "title.rs",
            "log.rs",
            "loops.rs",
            "looks.rs",
            "stopwatch.rs",
            "syslog.rs",
            "allocator.rs",
            "lanes.rs",
            "main_thread.rs",
            "aof/aligned.rs",
            "background/",
            "panics.rs",
            "drill.rs",
            "ending.rs",
        ],
    },
    Room { name: "table", places: &["table.rs", "request_keys.rs"] },
    Room {
        name: "clients",
        places: &[
            "client_id.rs",
            "client_margin.rs",
            "tracking/invalidation.rs",
            "mailbox.rs",
            "clients.rs",
            "multicast.rs",
            "unregistration.rs",
        ],
    },
    Room { name: "journal", places: &["journal/"] },
    Room {
        name: "observe",
        places: &[
            "latency.rs",
            "monitor.rs",
            "notifications.rs",
            "pubsub/",
            "redact.rs",
            "command_log.rs",
            "rates.rs",
            "stats.rs",
            "tracking/",
        ],
    },
    Room {
        name: "limits",
        places: &[
            "disk_errors.rs",
            "long_running.rs",
            "budget.rs",
            "pause.rs",
            "loading/progress.rs",
            "aging_state.rs",
            "defrag_state.rs",
            "evictor.rs",
            "eviction_observer.rs",
            "sweep.rs",
            "scripts/cost_history.rs",
            "scripts/cache.rs",
            "scripts/interpreters.rs",
            "scripts/libraries.rs",
            "scripts/running.rs",
            "scripts/state.rs",
        ],
    },
    Room { name: "shared", places: &["shared.rs", "lane.rs", "keyspace_settings.rs"] },
    Room {
        name: "session",
        places: &["client_info.rs", "output_ceiling.rs", "patience.rs", "session/"],
    },
    Room { name: "commit", places: &["accounting.rs", "blocking.rs", "commit.rs", "handler.rs"] },
    Room {
        name: "admission",
        places: &["guard.rs", "gates.rs", "login.rs", "scripts/declared.rs"],
    },
    Room {
        name: "reclaim",
        places: &[
            "aging.rs",
            "client_memory.rs",
            "defrag.rs",
            "evict.rs",
            "expiry.rs",
            "release.rs",
        ],
    },
    Room { name: "transaction", places: &["control_plane.rs", "engine.rs", "unit/"] },
    Room { name: "execute", places: &["execute.rs", "execute/", "heavy.rs", "heavy/"] },
    Room { name: "scripting", places: &["scripts/"] },
    Room {
        name: "durability",
        places: &[
            "aof/",
            "snapshot/",
            "loading/",
            "replay/",
            "backup.rs",
            "data/",
            "claims.rs",
            "durability.rs",
            "log_scheduling.rs",
            "waitaof.rs",
            "save.rs",
            "shutdown.rs",
        ],
    },
    Room { name: "memcached", places: &["memcached/"] },
    Room {
        name: "net",
        places: &[
            "connection/",
            "housekeeping.rs",
            "output_limit.rs",
            "listeners.rs",
            "listeners/",
            "udp.rs",
            "network.rs",
            "batch_scheduling.rs",
            "deferred.rs",
            "durability_waiters.rs",
            "group_commit.rs",
            "worker.rs",
            "worker_pool.rs",
        ],
    },
    Room { name: "state", places: &["server.rs", "control/context.rs"] },
    Room { name: "control", places: &["control/", "users.rs", "apply_config.rs"] },
    Room { name: "start", places: &["startup/", "cron.rs", "start.rs", "families.rs", "lib.rs"] },
];

/// Files of the widest circle of imports.
const WIDEST_CIRCLE: usize = 28;

/// Names of types that one crate defines more than once, by crate.
const TYPE_NAMES: &[(&str, usize)] = &[("server", 45)];

/// Holds the rooms against their pins.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let house = House::read(SERVER, sources);
    let mut problems = Vec::new();
    let homeless = house.files.keys().filter(|file| room_of(file).is_none());
    problems.extend(homeless.map(|file| format!("{SERVER}{file}:1: room: no room names it")));
    for (rank, room) in ROOMS.iter().enumerate() {
        let up = house.arrows_up(rank).into_iter();
        problems.extend(up.map(|arrow| {
            format!("{SERVER}{}: room: {arrow} runs up from {}", first_line(&arrow), room.name)
        }));
    }
    let circle = house.widest_circle();
    problems.extend(held("files in the widest circle", circle.len(), WIDEST_CIRCLE, &circle));
    for (name, count) in type_names(sources) {
        let pin = TYPE_NAMES.iter().find(|(pinned, _)| *pinned == name);
        let what = format!("type names of {name} that stand for two things");
        problems.extend(held(&what, count.len(), pin.map_or(0, |(_, count)| *count), &count));
    }
    problems
}

/// Where an import is told of: at the head of the file that it is in.
fn first_line(arrow: &str) -> String {
    let file = arrow.split(' ').next().unwrap_or_default();
    format!("{file}:1")
}

/// Why a figure is not as it is pinned.
fn held(what: &str, found: usize, pinned: usize, list: &[String]) -> Option<String> {
    let place = "xtask/src/tidy/rooms.rs:1: room";
    match found.cmp(&pinned) {
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Less => {
            Some(format!("{place}: {what}: {found} are left of {pinned}: lower the pin"))
        }
        std::cmp::Ordering::Greater => {
            Some(format!("{place}: {what}: {found}, at most {pinned}: {}", list.join(", ")))
        }
    }
}

/// The place of a file's room among the rooms; the path is relative to the crate's sources.
fn room_of(file: &str) -> Option<usize> {
    let places = ROOMS.iter().enumerate().flat_map(|(rank, room)| {
        room.places
            .iter()
            .filter(|place| file.starts_with(**place))
            .map(move |place| (place.len(), rank))
    });
    places.max().map(|(_, rank)| rank)
}

/// The files of a crate, each with the files that it imports.
struct House {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl House {
    fn read(folder: &str, sources: &[Source]) -> Self {
        let own = sources.iter().filter(|source| !source.is_test());
        let own = own.filter_map(|source| Some((source.path.strip_prefix(folder)?, source)));
        let modules: BTreeMap<Vec<String>, &str> =
            own.clone().map(|(file, _)| (module_of(file), file)).collect();
        let files = own.map(|(file, source)| {
            let here = module_of(file);
            let words = source.product_words();
            let imported = words.filter_map(|(_, word)| {
                let path = absolute(&here, word).or_else(|| {
                    let child = [&here[..], &[word.split("::").next()?.to_owned()]].concat();
                    modules.contains_key(&child).then_some(child)
                })?;
                let module = (0..=path.len()).rev().find_map(|end| modules.get(&path[..end]))?;
                (*module != file).then(|| (*module).to_owned())
            });
            (file.to_owned(), imported.collect())
        });
        Self { files: files.collect() }
    }

    /// Each import of a file of this room that goes to a higher one.
    fn arrows_up(&self, rank: usize) -> Vec<String> {
        let own = self.files.iter().filter(|(file, _)| room_of(file) == Some(rank));
        let arrows = own.flat_map(|(file, imported)| {
            let up = imported.iter().filter(move |other| room_of(other) > Some(rank));
            up.map(move |other| format!("{file} -> {other}"))
        });
        arrows.collect()
    }

    /// The files of the largest set in which each reaches each.
    fn widest_circle(&self) -> Vec<String> {
        let reach: BTreeMap<&str, BTreeSet<&str>> =
            self.files.keys().map(|file| (&**file, self.reached(file))).collect();
        let circles = self.files.keys().map(|file| {
            let both = reach[&**file].iter().filter(|other| reach[**other].contains(&**file));
            both.map(|other| (*other).to_owned()).collect::<Vec<_>>()
        });
        circles.max_by_key(Vec::len).unwrap_or_default()
    }

    fn reached<'a>(&'a self, file: &'a str) -> BTreeSet<&'a str> {
        let (mut reached, mut left) = (BTreeSet::new(), vec![file]);
        while let Some(file) = left.pop() {
            let new = self.files[file].iter().map(String::as_str);
            left.extend(new.filter(|other| reached.insert(*other)));
        }
        reached
    }
}

/// The path of the module that a file holds; the root's is empty.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let parts = path.split('/').filter(|part| !matches!(*part, "lib" | "main" | "mod"));
    parts.map(str::to_owned).collect()
}

/// A path that is seen from a module, from the crate's root on; `None` if it names another crate
/// or something of its own.
fn absolute(here: &[String], word: &str) -> Option<Vec<String>> {
    let mut parts = word.split("::").peekable();
    let mut path = match parts.next()? {
        "crate" => Vec::new(),
        "self" => here.to_vec(),
        "super" => {
            let mut path = here[..here.len().checked_sub(1)?].to_vec();
            while parts.next_if_eq(&"super").is_some() {
                path.pop()?;
            }
            path
        }
        _ => return None,
    };
    parts.peek()?;
    path.extend(parts.map(str::to_owned));
    Some(path)
}

/// The names that more than one type of a crate has, tests left out.
fn type_names(sources: &[Source]) -> BTreeMap<String, Vec<String>> {
    let mut defined: BTreeMap<(String, String), usize> = BTreeMap::new();
    for source in sources.iter().filter(|source| !source.is_test()) {
        let Some((name, _)) =
            source.path.strip_prefix("crates/").and_then(|path| path.split_once("/src/"))
        else {
            continue;
        };
        for item in &source.syntax.items {
            let ident = match item {
                syn::Item::Struct(item) => &item.ident,
                syn::Item::Enum(item) => &item.ident,
                syn::Item::Trait(item) => &item.ident,
                syn::Item::Type(item) => &item.ident,
                _ => continue,
            };
            *defined.entry((name.to_owned(), ident.to_string())).or_default() += 1;
        }
    }
    let mut twice: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((room, name), count) in defined {
        let names = twice.entry(room).or_default();
        if count > 1 {
            names.push(name);
        }
    }
    twice
}

#[cfg(test)]
mod tests {
    use super::{House, absolute, held, module_of, room_of, type_names};
    use crate::tidy::source::Source;

    fn source(path: &str, body: &str) -> Source {
        Source::parse(path, format!("//! Head.\n{body}")).unwrap()
    }

    fn some() -> [Source; 6] {
        [
            source("crates/server/src/lib.rs", "mod journal;\nmod server;\nmod evict;"),
            source("crates/server/src/journal/mod.rs", "use crate::server::Server;"),
            source(
                "crates/server/src/server.rs",
                "use super::evict::{self, Evictor};\n#[cfg(test)]\nmod tests { use crate::start; }",
            ),
            source("crates/server/src/evict.rs", "fn f() { crate::journal::append(); }"),
            source("crates/server/src/aof/mod.rs", "pub(crate) use files::Files;"),
            source("crates/server/src/aof/files.rs", "struct Files;"),
        ]
    }

    #[test]
    fn imports_are_read_from_the_code() {
        let house = House::read("crates/server/src/", &some());
        let imports = |file: &str| house.files[file].iter().cloned().collect::<Vec<_>>();
        assert_eq!(imports("journal/mod.rs"), ["server.rs"]);
        assert_eq!(imports("server.rs"), ["evict.rs"], "what tests import is no arrow");
        assert_eq!(imports("evict.rs"), ["journal/mod.rs"], "a path in the text is an import");
        assert_eq!(imports("aof/mod.rs"), ["aof/files.rs"], "so is a name of a child");
        let up: Vec<String> = (0..20).flat_map(|rank| house.arrows_up(rank)).collect();
        assert_eq!(up, ["journal/mod.rs -> server.rs"]);
        assert_eq!(house.widest_circle(), ["evict.rs", "journal/mod.rs", "server.rs"]);
    }

    #[test]
    fn paths_are_seen_from_their_module() {
        let here = module_of("aof/tail/mod.rs");
        assert_eq!(here, ["aof", "tail"]);
        assert!(module_of("lib.rs").is_empty());
        for (word, path) in [
            ("crate::server::Server", &["server", "Server"][..]),
            ("super::files", &["aof", "files"]),
            ("super::super::server", &["server"]),
            ("self::a", &["aof", "tail", "a"]),
        ] {
            assert_eq!(absolute(&here, word).unwrap(), path, "{word}");
        }
        assert!(absolute(&here, "std::fs").is_none());
        assert!(absolute(&here, "crate").is_none(), "a visibility is no import");
    }

    #[test]
    fn the_longer_name_says_which_room_a_file_is_in() {
        assert!(room_of("scripts/state.rs") < room_of("scripts/run.rs"));
        assert!(room_of("nowhere.rs").is_none());
    }

    #[test]
    fn a_pin_holds_both_ways() {
        let list = ["a -> b".to_owned()];
        assert_eq!(held("arrows", 1, 1, &list), None);
        assert!(held("arrows", 1, 0, &list).unwrap().ends_with("arrows: 1, at most 0: a -> b"));
        assert!(held("arrows", 1, 2, &list).unwrap().ends_with("1 are left of 2: lower the pin"));
    }

    #[test]
    fn a_name_of_two_types_is_counted_once() {
        let files = [
            source("crates/acl/src/a.rs", "struct Target;\nenum One {}\nmod x;"),
            source("crates/acl/src/b.rs", "type Target = u8;\nstruct Two;"),
            source("crates/acl/src/tests.rs", "struct Two;"),
        ];
        assert_eq!(type_names(&files)["acl"], ["Target"]);
    }
}
