//! What is packaged: the Debian package on a copy of this system that goes with the test, pages of
//! the manual, completions, and the files for containers.

use std::path::{Path, PathBuf};
use std::process::Command;

use tests::environment::{self, repository};

/// What is done with the package, as root of a system whose changes go with its process.
const LIFE: &str = include_str!("../packages.sh");

fn packaging(file: &str) -> PathBuf {
    repository().join("packaging").join(file)
}

/// Runs a command that must end well, and returns what it printed.
fn printed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    text
}

/// A package of the server under test.
fn package(version: &str, folder: &Path) -> String {
    let mut build = Command::new(packaging("debian/build.sh"));
    build.arg(environment::binary()).arg(version).arg(folder);
    printed(build.env("DPKG_DEB_COMPRESSOR_TYPE", "none")).trim().to_owned()
}

#[test]
fn a_package_is_installed_started_upgraded_and_removed() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let packages = ["0.1.0-1", "0.1.0-2"].map(|version| package(version, folder.path()));
    let stage = folder.path().join("stage");
    std::fs::create_dir(&stage).expect("it can be made");
    let mut life = Command::new("unshare");
    life.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-eu", "-c", LIFE, "sh"]);
    let text = printed(life.arg(&stage).args(&packages));
    assert!(text.ends_with("all of it\n"), "{text}");
}

#[test]
fn a_package_holds_what_it_says() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let package = package("0.1.0", folder.path());
    let listed = printed(Command::new("dpkg-deb").args(["--contents", &package]));
    for file in [
        "/usr/bin/apus\n",
        "/etc/apus/apus.conf\n",
        "/lib/systemd/system/apus.service\n",
        "/etc/logrotate.d/apus\n",
        "/usr/share/man/man1/apus.1.gz\n",
        "/usr/share/man/man1/apus-cli.1.gz\n",
        "/usr/share/man/man1/apus-ping.1.gz\n",
        "/usr/share/man/man5/apus.conf.5.gz\n",
        "/usr/share/bash-completion/completions/apus\n",
        "/usr/share/doc/apus/copyright\n",
        "/usr/share/doc/apus/examples/grafana/apus.json\n",
        "/usr/share/doc/apus/examples/prometheus/apus.rules.yml\n",
    ] {
        assert!(listed.contains(file), "{file} is not in\n{listed}");
    }
    let is_of_root = |line: &&str| line.contains(" root/root ");
    assert!(listed.lines().all(|line| is_of_root(&line)), "{listed}");
}

#[test]
fn pages_of_the_manual_are_well_formed() {
    let ours = ["apus.1", "apus-cli.1", "apus-ping.1", "apus-bench.1", "apus-check.1"];
    for page in ours.into_iter().chain(["apus.conf.5"]) {
        let mut format = Command::new("groff");
        format.args(["-man", "-ww", "-Tascii"]).arg(packaging("man").join(page));
        let output = format.output().expect("groff is installed");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{page}: {errors}");
        assert!(output.stdout.len() > 500, "{page} has little to say");
    }
}

#[test]
fn bash_completes_what_there_is() {
    let script =
        "source \"$1\"; COMP_WORDS=(apus \"$2\"); COMP_CWORD=1; _apus; echo ${COMPREPLY[*]}";
    let complete = |word: &str| {
        let mut bash = Command::new("bash");
        bash.args(["-c", script, "bash"]).arg(packaging("completions/apus.bash")).arg(word);
        printed(&mut bash).trim().to_owned()
    };
    assert_eq!(complete("ben"), "bench");
    assert_eq!(complete("--maxmemory-pol"), "--maxmemory-policy");
    assert_eq!(complete("--appendf"), "--appendfilename --appendfsync");
}

/// What a container and its manifests say must be what the binary takes.
#[test]
fn containers_start_what_there_is() {
    let container = std::fs::read_to_string(packaging("container/Containerfile"));
    let container = container.expect("it is there");
    assert!(container.contains("USER 65532") && !container.contains("CMD apus"), "{container}");
    let help = printed(Command::new(environment::binary()).arg("help"));
    for rest in container.split("\"/usr/bin/apus\", \"").skip(1) {
        let word = rest.split('"').next().unwrap_or_default();
        let is_there = help.lines().any(|line| line.trim_start().starts_with(&format!("{word} ")));
        assert!(is_there, "the container calls `apus {word}`, which is not there");
    }
    let manifest = std::fs::read_to_string(packaging("kubernetes/apus.yaml"));
    let manifest = manifest.expect("it is there");
    let (_, lines) = manifest.split_once("apus.conf: |\n").expect("it has a configuration");
    let lines = lines.lines().take_while(|line| line.starts_with("    "));
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let users = folder.path().join("users.acl");
    std::fs::write(&users, "user default on nopass ~* &* +@all\n").expect("it can be written");
    let text: String = lines.map(|line| format!("{}\n", line.trim())).collect();
    let text = text.replace("/secret/users.acl", &users.display().to_string());
    let text = text.replace("/data", &folder.path().display().to_string());
    let kept = text.lines().filter(|line| {
        !["port ", "bind ", "http-port ", "http-bind "].iter().any(|own| line.starts_with(own))
    });
    let text: String = kept.map(|line| format!("{line}\n")).collect();
    drop(tests::Server::start_with_config(&text, &[]));
}
