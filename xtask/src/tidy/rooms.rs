//! The rooms inside `engine`, `durability` and `server`, read from the code: which file belongs to
//! which, which imports run up, how wide the widest circle of files is, and which type names stand
//! for two things.
//!
//! Invariant: an import that runs up fails, and a file that no room names. The other figures are
//! ratchets: one that rises fails, and so does one that falls below its pin, which is then to be
//! lowered.

use std::collections::{BTreeMap, BTreeSet};

use super::source::Source;

/// The crates that are divided into rooms.
const CRATES: [&str; 3] = ["engine", "durability", "server"];

/// A part of the server, from the lowest to the highest.
struct Room {
    name: &'static str,
    /// Its files and folders, by crate; of two rooms that name a file the longer name counts.
    places: &'static [&'static str],
}

const fn room(name: &'static str, places: &'static [&'static str]) -> Room {
    Room { name, places }
}

const ROOMS: &[Room] = &[
    room("runtime", &["engine/runtime/"]),
    room("table", &["engine/table/"]),
    room("clients", &["engine/clients/"]),
    room("journal", &["engine/journal/"]),
    room("observe", &["engine/observe/"]),
    room("limits", &["engine/limits/"]),
    room("shared", &["engine/shared.rs", "engine/lane.rs", "engine/keyspace_settings.rs"]),
    room("session", &["engine/session/"]),
    room("commit", &["engine/commit/"]),
    room("admission", &["engine/admission/"]),
    room("reclaim", &["engine/reclaim/"]),
    room("transaction", &["engine/transaction/"]),
    room("execute", &["engine/execute.rs", "engine/execute/"]),
    room("scripting", &["engine/scripting/"]),
    room("engine", &["engine/lib.rs", "engine/testing.rs"]),
    room("durability", &["durability/"]),
    room("memcached", &["server/memcached/"]),
    room("net", &["server/net/"]),
    room("links", &["server/links/"]),
    room("migration", &["server/migration/"]),
    room("telemetry", &["server/telemetry/"]),
    room("cluster", &["server/cluster/"]),
    room(
        "state",
        &["server/server.rs", "server/control/context.rs", "server/sentinel/requests.rs"],
    ),
    room("control", &["server/control/"]),
    room("sentinel", &["server/sentinel/"]),
    room("http", &["server/http/"]),
    room(
        "start",
        &[
            "server/cron.rs",
            "server/families.rs",
            "server/lib.rs",
            "server/start.rs",
            "server/startup/",
        ],
    ),
];

/// The rooms that may name the whole server; all others are given what they read of it.
const SERVER_ROOMS: [&str; 3] = ["state", "control", "start"];

/// Where the whole server is defined.
const SERVER_FILE: &str = "server/server.rs";

/// Files of the widest circle of imports.
const WIDEST_CIRCLE: usize = 28;

/// Names of types that one crate defines more than once, by crate.
const TYPE_NAMES: &[(&str, usize)] = &[];

/// Holds the rooms against their pins.
pub(super) fn check(sources: &[Source]) -> Vec<String> {
    let house = ImportGraph::read(&CRATES, sources);
    let mut problems = Vec::new();
    let homeless = house.files.keys().filter(|file| room_of(file).is_none());
    problems.extend(homeless.map(|file| format!("{}:1: room: no room names it", path_of(file))));
    for (rank, room) in ROOMS.iter().enumerate() {
        let up = house.arrows_up(rank).into_iter();
        problems.extend(up.map(|arrow| {
            let file = arrow.split(' ').next().unwrap_or_default();
            format!("{}:1: room: {arrow} runs up from {}", path_of(file), room.name)
        }));
    }
    let all_of_it = house.naming_the_server();
    problems.extend(all_of_it.map(|file| {
        format!("{}:1: room: only state, control and the start name `Server`", path_of(file))
    }));
    let circle = house.widest_circle();
    problems.extend(held("files in the widest circle", circle.len(), WIDEST_CIRCLE, &circle));
    for (name, count) in type_names(sources) {
        let pin = TYPE_NAMES.iter().find(|(pinned, _)| *pinned == name);
        let what = format!("type names of {name} that stand for two things");
        problems.extend(held(&what, count.len(), pin.map_or(0, |(_, count)| *count), &count));
    }
    problems
}

/// Where a file lies that is named by its crate and its place there.
fn path_of(file: &str) -> String {
    let (name, place) = file.split_once('/').unwrap_or_default();
    format!("crates/{name}/src/{place}")
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

/// The place of a file's room among the rooms.
fn room_of(file: &str) -> Option<usize> {
    let places = ROOMS.iter().enumerate().flat_map(|(rank, room)| {
        room.places
            .iter()
            .filter(|place| file.starts_with(**place))
            .map(move |place| (place.len(), rank))
    });
    places.max().map(|(_, rank)| rank)
}

/// The files of some crates, as `crate/place`, each with the files that it imports.
struct ImportGraph {
    files: BTreeMap<String, BTreeSet<String>>,
}

impl ImportGraph {
    fn read(crates: &[&str], sources: &[Source]) -> Self {
        let own = sources.iter().filter(|source| !source.is_test()).filter_map(|source| {
            let (name, place) = source.path.strip_prefix("crates/")?.split_once("/src/")?;
            crates.contains(&name).then(|| (format!("{name}/{place}"), source))
        });
        let own: Vec<(String, &Source)> = own.collect();
        let modules: BTreeMap<Vec<String>, &str> =
            own.iter().map(|(file, _)| (module_of(file), &**file)).collect();
        let files = own.iter().map(|(file, source)| {
            let here = module_of(file);
            let imported = source.product_words().filter_map(|(_, word)| {
                let path = absolute(&here, word).or_else(|| {
                    let first = word.split("::").next()?;
                    let child = [&here[..], &[first.to_owned()]].concat();
                    if modules.contains_key(&child) {
                        return Some(child);
                    }
                    let is_crate = crates.contains(&first) && word.contains("::");
                    is_crate.then(|| word.split("::").map(str::to_owned).collect())
                })?;
                // What a root itself holds are macros, which have no other place.
                let module = (2..=path.len()).rev().find_map(|end| modules.get(&path[..end]))?;
                (*module != file).then(|| (*module).to_owned())
            });
            (file.clone(), imported.collect())
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

    /// The files that name the whole server and stand in no room that may.
    fn naming_the_server(&self) -> impl Iterator<Item = &str> {
        let may =
            |file: &str| room_of(file).is_some_and(|rank| SERVER_ROOMS.contains(&ROOMS[rank].name));
        let naming = self.files.iter().filter(|(_, imported)| imported.contains(SERVER_FILE));
        naming.map(|(file, _)| &**file).filter(move |file| !may(file))
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

/// The path of the module that a file holds, which begins with its crate.
fn module_of(file: &str) -> Vec<String> {
    let path = file.trim_end_matches(".rs").trim_end_matches("/mod");
    let parts = path.split('/').filter(|part| !matches!(*part, "lib" | "main" | "mod"));
    parts.map(str::to_owned).collect()
}

/// A path that is seen from a module, beginning with its crate; `None` if it names another crate or
/// something of its own.
fn absolute(here: &[String], word: &str) -> Option<Vec<String>> {
    let mut parts = word.split("::").peekable();
    let mut path = match parts.next()? {
        "crate" => here[..1].to_vec(),
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
    use super::{CRATES, ImportGraph, ROOMS, absolute, held, module_of, room_of, type_names};
    use crate::tidy::source::Source;

    fn source(path: &str, body: &str) -> Source {
        Source::parse(path, format!("//! Head.\n{body}")).unwrap()
    }

    fn some() -> [Source; 6] {
        [
            source("crates/engine/src/lib.rs", "mod journal;\nmod lane;"),
            source("crates/engine/src/journal/mod.rs", "use crate::lane::Lane;"),
            source(
                "crates/engine/src/lane.rs",
                "use super::journal::{self, X};\n#[cfg(test)]\nmod tests { use crate::testing; }",
            ),
            source("crates/server/src/server.rs", "fn f() { engine::journal::append(); }"),
            source("crates/durability/src/aof/mod.rs", "pub(crate) use files::Files;"),
            source("crates/durability/src/aof/files.rs", "struct Files;"),
        ]
    }

    #[test]
    fn imports_are_read_from_the_code() {
        let house = ImportGraph::read(&CRATES, &some());
        let imports = |file: &str| house.files[file].iter().cloned().collect::<Vec<_>>();
        assert_eq!(imports("engine/journal/mod.rs"), ["engine/lane.rs"]);
        let of_lane = imports("engine/lane.rs");
        assert_eq!(of_lane, ["engine/journal/mod.rs"], "what tests import is no arrow");
        let of_server = imports("server/server.rs");
        assert_eq!(of_server, ["engine/journal/mod.rs"], "a path in the text is an import");
        let of_aof = imports("durability/aof/mod.rs");
        assert_eq!(of_aof, ["durability/aof/files.rs"], "so is a name of a child");
        let up: Vec<String> = (0..ROOMS.len()).flat_map(|rank| house.arrows_up(rank)).collect();
        assert_eq!(up, ["engine/journal/mod.rs -> engine/lane.rs"]);
        assert_eq!(house.widest_circle(), ["engine/journal/mod.rs", "engine/lane.rs"]);
    }

    #[test]
    fn the_whole_server_is_named_by_few() {
        let naming = "use crate::server::Server;";
        let files = [
            source("crates/server/src/server.rs", "pub(crate) struct Server;"),
            source("crates/server/src/control/users.rs", naming),
            source("crates/server/src/cron.rs", naming),
            source("crates/server/src/http/health.rs", naming),
            source("crates/server/src/http/tests.rs", naming),
        ];
        let house = ImportGraph::read(&CRATES, &files);
        assert_eq!(house.naming_the_server().collect::<Vec<_>>(), ["server/http/health.rs"]);
    }

    #[test]
    fn paths_are_seen_from_their_module() {
        let here = module_of("server/net/listeners/mod.rs");
        assert_eq!(here, ["server", "net", "listeners"]);
        assert_eq!(module_of("server/lib.rs"), ["server"]);
        for (word, path) in [
            ("crate::server::Server", &["server", "server", "Server"][..]),
            ("super::worker", &["server", "net", "worker"]),
            ("super::super::server", &["server", "server"]),
            ("self::a", &["server", "net", "listeners", "a"]),
        ] {
            assert_eq!(absolute(&here, word).unwrap(), path, "{word}");
        }
        assert!(absolute(&here, "std::fs").is_none());
        assert!(absolute(&here, "crate").is_none(), "a visibility is no import");
    }

    #[test]
    fn the_longer_name_says_which_room_a_file_is_in() {
        assert!(room_of("server/control/context.rs") < room_of("server/control/mod.rs"));
        assert!(room_of("server/nowhere.rs").is_none());
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
