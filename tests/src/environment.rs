//! Where the server under test, the oracles and the clients are. Invariant: something absent is
//! named together with the command that brings it.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// The built server: `APUS_BINARY`, or `apus` beside the folder of the test executables.
pub fn binary() -> PathBuf {
    let given = std::env::var_os("APUS_BINARY").map(PathBuf::from);
    let path = given.unwrap_or_else(|| profile_folder().join("apus"));
    assert!(path.is_file(), "{} is absent: run `cargo xtask test`", path.display());
    path
}

/// A program or folder that `cargo xtask setup` recorded under this name.
pub fn recorded(name: &str) -> PathBuf {
    let file = folder().join("oracles.json");
    let absent = format!("{name} is not set up in {}: run `cargo xtask test`", file.display());
    let text = std::fs::read_to_string(&file).unwrap_or_else(|_| panic!("{absent}"));
    let paths: Value = serde_json::from_str(&text).expect("xtask writes JSON");
    let path = paths.get(name).and_then(Value::as_str).map(PathBuf::from);
    path.filter(|path| path.exists()).unwrap_or_else(|| panic!("{absent}"))
}

/// The test environment: `APUS_TEST_ENV`, or `test-env` in Cargo's target folder.
pub fn folder() -> PathBuf {
    let given = std::env::var_os("APUS_TEST_ENV").map(PathBuf::from);
    given.unwrap_or_else(|| profile_folder().with_file_name("test-env"))
}

/// The repository, for files that tests share with others.
pub fn repository() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().expect("this crate lies in a folder of the repository").to_owned()
}

/// `target/PROFILE`: a test executable lies in its folder `deps`.
fn profile_folder() -> PathBuf {
    let executable = std::env::current_exe().expect("a test knows its own path");
    executable.ancestors().nth(2).expect("it lies in target/PROFILE/deps").to_owned()
}
