//! The parts of the test environment, one block each: name, pins, and how to install it.
//! Invariant: an installer writes into its own folder only, except the Debian packages.

use std::fs;
use std::path::{Path, PathBuf};

use super::{files, name};
use crate::shell::{command, find, output, root};

/// One thing to install.
pub(super) struct Part {
    /// The name of its folder and of its stamp.
    pub(super) name: &'static str,
    /// The files which say what is installed.
    pub(super) pins: &'static [&'static str],
    /// What the pin files do not say.
    pub(super) extra: &'static str,
    /// A quick look whether something outside the folder is still there.
    pub(super) is_there: fn() -> bool,
    /// Installs into the (empty) folder.
    pub(super) install: fn(&Path) -> Result<(), String>,
}

pub(super) const PARTS: &[Part] = &[
    Part {
        name: "debian",
        pins: &[],
        extra: "redis-server redis-tools memcached g++ curl openssl groff chromium prometheus",
        is_there: has_debian_programs,
        install: install_debian,
    },
    Part {
        name: "venv",
        pins: &["tests/clients/python/requirements.txt"],
        extra: "",
        is_there: || true,
        install: install_venv,
    },
    Part {
        name: "redis-py",
        pins: &["tests/clients/python/requirements.txt"],
        extra: "",
        is_there: || true,
        install: install_redis_py,
    },
    Part {
        name: "npm",
        pins: &["tests/clients/npm/package.json", "tests/clients/npm/package-lock.json"],
        extra: "",
        is_there: || find("node").is_some(),
        install: install_npm,
    },
    Part {
        name: "go",
        pins: &[
            "tests/clients/go/go.mod",
            "tests/clients/go/go.sum",
            "tests/clients/go/failover.go",
            "tests/clients/go/main.go",
        ],
        extra: "",
        is_there: || true,
        install: install_go,
    },
    Part {
        name: "go-suite",
        pins: &["tests/clients/go/go.mod", "tests/clients/go/go.sum"],
        extra: "",
        is_there: || true,
        install: install_go_suite,
    },
    Part {
        name: "rueidis",
        pins: &[
            "tests/clients/rueidis/go.mod",
            "tests/clients/rueidis/go.sum",
            "tests/clients/rueidis/main.go",
        ],
        extra: "",
        is_there: || true,
        install: install_rueidis,
    },
    Part {
        name: "exporter",
        pins: &["tests/clients/exporter/go.mod", "tests/clients/exporter/go.sum"],
        extra: "",
        is_there: || true,
        install: install_exporter,
    },
    Part {
        name: "porcupine",
        pins: &[
            "tests/clients/porcupine/go.mod",
            "tests/clients/porcupine/go.sum",
            "tests/clients/porcupine/connection.go",
            "tests/clients/porcupine/failover.go",
            "tests/clients/porcupine/main.go",
            "tests/clients/porcupine/models.go",
        ],
        extra: "",
        is_there: || true,
        install: install_porcupine,
    },
    Part {
        name: "maven",
        pins: &["tests/clients/maven/pom.xml"],
        extra: "",
        is_there: || find("java").is_some(),
        install: install_maven,
    },
    Part {
        name: "gomemcache",
        pins: &[
            "tests/clients/gomemcache/go.mod",
            "tests/clients/gomemcache/go.sum",
            "tests/clients/gomemcache/main.go",
        ],
        extra: "",
        is_there: || true,
        install: install_gomemcache,
    },
    Part {
        name: "memjs",
        pins: &["tests/clients/memjs/package.json", "tests/clients/memjs/package-lock.json"],
        extra: "",
        is_there: || find("node").is_some(),
        install: install_memjs,
    },
    Part {
        name: "spymemcached",
        pins: &["tests/clients/spymemcached/pom.xml"],
        extra: "",
        is_there: || find("java").is_some(),
        install: install_spymemcached,
    },
    Part { name: "mdbook", pins: &[], extra: MDBOOK, is_there: || true, install: install_mdbook },
];

/// The version of mdBook that builds the book.
const MDBOOK: &str = "0.5.4";

/// The last one builds libFuzzer, those before it are what the book's pages call.
const DEBIAN_PROGRAMS: [&str; 12] = [
    "redis-server",
    "redis-cli",
    "redis-benchmark",
    "memcached",
    "curl",
    "openssl",
    "groff",
    "c++",
    "chromium",
    "chromedriver",
    "prometheus",
    "promtool",
];

fn has_debian_programs() -> bool {
    DEBIAN_PROGRAMS.iter().all(|program| find(program).is_some())
}

fn install_debian(_: &Path) -> Result<(), String> {
    if has_debian_programs() {
        return Ok(());
    }
    let policy = NoDaemons::hold()?;
    output(&mut command("apt-get", &["update", "--quiet=2"]))?;
    let arguments = ["install", "--yes", "--no-install-recommends"];
    let mut install = command("apt-get", &arguments);
    install.args(["redis-server", "redis-tools", "memcached"]);
    install.args(["g++", "curl", "openssl", "groff-base", "chromium", "chromium-driver"]);
    install.arg("prometheus");
    output(install.env("DEBIAN_FRONTEND", "noninteractive"))?;
    drop(policy);
    // Without systemd there is nothing to disable, and that is as good.
    let _ =
        output(&mut command("systemctl", &["disable", "redis-server", "memcached", "prometheus"]));
    if has_debian_programs() { Ok(()) } else { Err(format!("want {DEBIAN_PROGRAMS:?}")) }
}

/// While this lives, Debian packages do not start the daemons they bring.
struct NoDaemons(Option<&'static Path>);

impl NoDaemons {
    fn hold() -> Result<Self, String> {
        let path = Path::new("/usr/sbin/policy-rc.d");
        if path.exists() {
            return Ok(Self(None));
        }
        fs::write(path, "#!/bin/sh\nexit 101\n").map_err(|error| name(path, &error))?;
        let held = Self(Some(path));
        make_executable(path)?;
        Ok(held)
    }
}

impl Drop for NoDaemons {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = fs::remove_file(path);
        }
    }
}

fn install_venv(folder: &Path) -> Result<(), String> {
    let path = folder.display().to_string();
    output(&mut command("python3", &["-m", "venv", &path]))?;
    let arguments = ["install", "--quiet", "--no-deps", "--requirement"];
    output(command(folder.join("bin/pip"), &arguments).arg("tests/clients/python/requirements.txt"))
        .map(drop)
}

/// The source package of the installed redis-py, for the tests it carries.
fn install_redis_py(folder: &Path) -> Result<(), String> {
    let requirements = super::read(&root().join("tests/clients/python/requirements.txt"))?;
    let pin = requirements.lines().find(|line| line.starts_with("redis=="));
    let pin = pin.ok_or("requirements.txt pins no redis")?;
    let pip = folder.with_file_name("venv").join("bin/pip");
    let arguments = ["download", "--quiet", "--no-deps", "--no-binary", "redis", pin];
    output(command(pip, &arguments).arg("--dest").arg(folder))?;
    let archives = files(folder)?;
    let archive = archives.first().ok_or("pip brought no archive")?;
    let mut unpack = command("tar", &["--extract", "--strip-components=1"]);
    output(unpack.arg("--file").arg(archive).arg("--directory").arg(folder)).map(drop)
}

fn install_npm(folder: &Path) -> Result<(), String> {
    npm("tests/clients/npm", folder)
}

fn install_memjs(folder: &Path) -> Result<(), String> {
    npm("tests/clients/memjs", folder)
}

/// Installs the packages that a project of the repository has pinned.
fn npm(project: &str, folder: &Path) -> Result<(), String> {
    copy(project, &["package.json", "package-lock.json"], folder)?;
    output(command("npm", &["ci", "--silent"]).current_dir(folder)).map(drop)
}

fn install_go(folder: &Path) -> Result<(), String> {
    go("tests/clients/go", &["build", "-o"], &folder.join("session"), ".")
}

/// The tests that the module of go-redis carries, as one program.
fn install_go_suite(folder: &Path) -> Result<(), String> {
    let package = "github.com/redis/go-redis/v9";
    go("tests/clients/go", &["test", "-c", "-o"], &folder.join("suite"), package)
}

fn install_rueidis(folder: &Path) -> Result<(), String> {
    go("tests/clients/rueidis", &["build", "-o"], &folder.join("session"), ".")
}

fn install_gomemcache(folder: &Path) -> Result<(), String> {
    go("tests/clients/gomemcache", &["build", "-o"], &folder.join("session"), ".")
}

/// The checksum database does not know this module, so its go.sum is what it is checked against.
fn install_exporter(folder: &Path) -> Result<(), String> {
    let package = "github.com/oliver006/redis_exporter";
    go("tests/clients/exporter", &["build", "-o"], &folder.join("redis_exporter"), package)
}

/// Our program that checks histories with Porcupine.
fn install_porcupine(folder: &Path) -> Result<(), String> {
    go("tests/clients/porcupine", &["build", "-o"], &folder.join("linearizable"), ".")
}

/// Builds a package in a project of the repository.
fn go(project: &str, verb: &[&str], program: &Path, package: &str) -> Result<(), String> {
    let mut build = command("go", verb);
    build.arg(program).arg(package).current_dir(root().join(project));
    output(&mut build).map(drop)
}

fn install_maven(folder: &Path) -> Result<(), String> {
    maven("tests/clients/maven", folder)
}

fn install_spymemcached(folder: &Path) -> Result<(), String> {
    maven("tests/clients/spymemcached", folder)
}

/// Brings the libraries that a project of the repository names.
fn maven(project: &str, folder: &Path) -> Result<(), String> {
    copy(project, &["pom.xml"], folder)?;
    let goal = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
    let arguments = ["--quiet", "--batch-mode", goal, "-DoutputDirectory=lib"];
    output(command("mvn", &arguments).current_dir(folder)).map(drop)
}

fn install_mdbook(folder: &Path) -> Result<(), String> {
    let arguments = ["install", "--quiet", "--locked", "--no-default-features", "mdbook"];
    let mut install = crate::shell::cargo(&arguments);
    output(install.args(["--version", MDBOOK, "--root"]).arg(folder)).map(drop)
}

fn copy(project: &str, sources: &[&str], folder: &Path) -> Result<(), String> {
    for source in sources {
        let from: PathBuf = root().join(project).join(source);
        fs::copy(&from, folder.join(source)).map_err(|error| name(&from, &error))?;
    }
    Ok(())
}

fn make_executable(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;
    let permissions = fs::Permissions::from_mode(0o755);
    fs::set_permissions(path, permissions).map_err(|error| name(path, &error))
}
