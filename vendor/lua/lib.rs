//! Builds the Lua beside this file, for the build script of `mlua-sys`, which calls it as it would
//! the crate of the same name from the registry. Invariant: any change of a source builds it anew.

use std::path::{Path, PathBuf};

/// The versions that a caller may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Lua 5.1.5
    Lua51,
}

pub use Version::Lua51;

/// How Lua is built.
#[derive(Clone, Copy, Debug, Default)]
pub struct Build;

/// What was built.
#[derive(Clone, Debug)]
pub struct Artifacts {
    sources: PathBuf,
    library: PathBuf,
}

impl Build {
    /// The only way to build it.
    pub fn new() -> Build {
        Build
    }

    /// Compiles all sources into one library below `OUT_DIR`.
    pub fn build(&self, _version: Version) -> Artifacts {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("lua-5.1.5");
        let out = std::env::var_os("OUT_DIR").expect("a build script has a directory");
        let library = PathBuf::from(out).join("lib");
        let entries = std::fs::read_dir(&sources).expect("the sources are beside this file");
        let paths = entries.map(|entry| entry.expect("an entry that was listed").path());
        let mut files: Vec<PathBuf> =
            paths.filter(|path| path.extension().is_some_and(|end| end == "c")).collect();
        files.sort();
        cc::Build::new()
            .cargo_metadata(false)
            .define("LUA_USE_LINUX", None)
            .define("_GNU_SOURCE", None)
            .include(&sources)
            .warnings(false)
            .flag_if_supported("-fno-common")
            .files(files)
            .out_dir(&library)
            .compile("lua5.1");
        Artifacts { sources, library }
    }
}

impl Artifacts {
    /// Tells cargo what to link, and when to build again.
    pub fn print_cargo_metadata(&self) {
        println!("cargo:rerun-if-changed={}", self.sources.display());
        println!("cargo:rustc-link-search=native={}", self.library.display());
        println!("cargo:rustc-link-lib=static:-bundle=lua5.1");
    }
}
