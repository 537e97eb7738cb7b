//! A start after whatever happened to the files of a server, of a Sentinel, of a node of a cluster,
//! or of certificates:
//! with each of them missing, empty, cut, doubled or of another version, with each two of them so,
//! and with some of the combinations of more, the process serves, or says in one line what is wrong
//! and where, and ends with status 1.
//!
//! `APUS_STARTS=all` tries all combinations of all files.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use base::Random;
use proto::value::Value;
use tests::environment::binary;
use tests::folder::copy_folder;
use tests::server::{eventually, free_port};
use tests::tls::Authority;
use tests::{Client, Server};

/// What may have happened to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Sound,
    Missing,
    Empty,
    Cut,
    Doubled,
    OtherVersion,
}

/// So many combinations of three files and more are tried.
const SAMPLE: usize = 30;

const DAMAGES: [State; 5] =
    [State::Missing, State::Empty, State::Cut, State::Doubled, State::OtherVersion];

/// A file of the server's, and how one of another version looks.
struct Subject {
    place: &'static str,
    of_another_version: fn(Vec<u8>) -> Vec<u8>,
}

const CONFIGURATION: Subject = Subject {
    place: "apus.conf",
    of_another_version: |text| [&text, &b"directive-of-tomorrow yes\n"[..]].concat(),
};

const USERS: Subject = Subject {
    place: "users.acl",
    of_another_version: |text| [&text, &b"user late on +@category-of-tomorrow\n"[..]].concat(),
};

const SNAPSHOT: Subject = Subject { place: "dump.rdb", of_another_version: newer_snapshot };

const BASE: Subject = Subject {
    place: "appendonlydir/appendonly.aof.1.base.rdb",
    of_another_version: newer_snapshot,
};

const INCREMENT: Subject = Subject {
    place: "appendonlydir/appendonly.aof.1.incr.aof",
    of_another_version: |log| [&b"*1\r\n$8\r\nTOMORROW\r\n"[..], &log].concat(),
};

const MANIFEST: Subject = Subject {
    place: "appendonlydir/appendonly.aof.manifest",
    of_another_version: |text| [&text, &b"file x.aof seq 9 type t\n"[..]].concat(),
};

const SENTINEL: Subject = Subject {
    place: "apus.conf",
    of_another_version: |text| [&text, &b"sentinel tomorrow mymaster yes\n"[..]].concat(),
};

const NODES: Subject = Subject {
    place: "nodes.conf",
    of_another_version: |text| [&text, &b"shards of-tomorrow 1\n"[..]].concat(),
};

/// OpenSSL has such ones, with what they are trusted for.
const CERTIFICATE: Subject = Subject { place: "server.crt", of_another_version: named_otherwise };

/// One that is encrypted, without its password.
const KEY: Subject = Subject { place: "server.key", of_another_version: named_otherwise };

const AUTHORITIES: Subject = Subject { place: "ca.crt", of_another_version: named_otherwise };

/// A file in PEM whose section is of another kind.
fn named_otherwise(pem: Vec<u8>) -> Vec<u8> {
    let text = String::from_utf8(pem).unwrap();
    let text = text.replace("CERTIFICATE", "TRUSTED CERTIFICATE");
    text.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY").into_bytes()
}

fn newer_snapshot(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[5..9].copy_from_slice(b"9999");
    bytes
}

/// Leaves a file in a state.
fn damage(folder: &Path, subject: &Subject, state: State) {
    let path = folder.join(subject.place);
    let mut bytes = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    match state {
        State::Sound => return,
        State::Missing => return fs::remove_file(&path).unwrap(),
        State::Empty => bytes.clear(),
        State::Cut => bytes.truncate(bytes.len() * 2 / 3),
        State::Doubled => bytes.extend_from_within(..),
        State::OtherVersion => bytes = (subject.of_another_version)(bytes),
    }
    fs::write(&path, bytes).unwrap();
}

/// Files that a server has left, with or without a log.
fn left_behind(has_log: bool) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let log = if has_log { "yes" } else { "no" };
    // Paths are relative: the copies are elsewhere.
    let text = format!("appendonly {log}\naclfile users.acl\nhz 20\n");
    let prepare = |folder: &Path| {
        fs::write(folder.join("users.acl"), "user default on nopass ~* &* +@all\n").unwrap();
    };
    let mut server = Server::start_configured(prepare, &text, &[]);
    let mut client = server.client();
    for number in 0..100 {
        client.call(&["SET", &format!("k{number}"), "value"]);
    }
    client.call(&["ACL", "SETUSER", "somebody", "on", ">secret", "+get"]);
    for command in [&["ACL", "SAVE"][..], &["SAVE"]] {
        assert_eq!(client.call(command), Value::Simple("OK".into()), "{command:?}");
    }
    server.kill();
    copy_folder(server.folder(), folder.path());
    folder
}

/// What is started, and so what it is asked once it serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profile {
    Server,
    Sentinel,
    /// A node of a cluster: data wait for slots, which its file may have lost.
    Node,
}

impl Profile {
    fn words(self) -> &'static [&'static str] {
        if self == Self::Sentinel { &["sentinel"] } else { &[] }
    }
}

/// A start in a folder, until it serves or has ended.
struct Start {
    child: Child,
    folder: PathBuf,
    profile: Profile,
}

impl Start {
    fn begin(folder: &Path, profile: Profile) -> Self {
        let error = fs::File::create(folder.join("stderr")).unwrap();
        // A configuration that says nothing may be a missing one: where to be is said apart.
        let child = Command::new(binary())
            .args(profile.words())
            .args(["apus.conf", "--bind", "127.0.0.1", "--port", "0", "--listen-on-any-port"])
            .args(["yes", "--logfile", "log"])
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(error)
            .spawn()
            .unwrap();
        Self { child, folder: folder.to_owned(), profile }
    }

    fn log(&self) -> String {
        fs::read_to_string(self.folder.join("log")).unwrap_or_default()
    }

    /// What came of it, in words; what must not be fails.
    fn outcome(&mut self, what: &str) -> &'static str {
        let mut status = None;
        eventually("a start comes to something", || {
            status = self.child.try_wait().unwrap();
            status.is_some() || self.log().contains("Ready to accept connections")
        });
        let (log, error) = (self.log(), fs::read_to_string(self.folder.join("stderr")).unwrap());
        let Some(status) = status else {
            let (_, after) = log.split_once("Listening on 127.0.0.1:").unwrap();
            let port = after.lines().next().unwrap().trim().parse().unwrap();
            let mut client = Client::connect(port);
            match self.profile {
                Profile::Sentinel => {
                    assert!(matches!(client.call(&["SENTINEL", "MYID"]), Value::Bulk(_)), "{what}");
                }
                Profile::Node => {
                    assert!(matches!(client.call(&["CLUSTER", "MYID"]), Value::Bulk(_)), "{what}");
                }
                Profile::Server => {
                    let set = client.call(&["SET", "new", "1"]);
                    assert_eq!(set, Value::Simple("OK".into()), "{what}");
                    assert!(matches!(client.call(&["DBSIZE"]), Value::Integer(1..)), "{what}");
                }
            }
            return "serves";
        };
        assert_eq!(status.code(), Some(1), "{what}: {status}\n{error}\n{log}");
        let lines: Vec<&str> = error.lines().collect();
        assert!(lines.len() == 1 && !lines[0].contains("panicked"), "{what}: {lines:?}\n{log}");
        assert!(lines[0].len() > 20, "{what}: {lines:?} says nothing");
        "refuses"
    }
}

impl Drop for Start {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// All states of a row of files.
fn states(files: usize) -> Vec<Vec<State>> {
    if files == 0 {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for state in [State::Sound].iter().chain(&DAMAGES) {
        let rest = states(files - 1);
        all.extend(rest.into_iter().map(|rest| [&[*state][..], &rest].concat()));
    }
    all
}

/// Those that are tried: of rows with more than two files that are not sound some, the same each
/// time.
fn tried(files: usize) -> Vec<Vec<State>> {
    let (simple, mut rest): (Vec<_>, Vec<_>) = states(files)
        .into_iter()
        .partition(|row| row.iter().filter(|state| **state != State::Sound).count() <= 2);
    if std::env::var("APUS_STARTS").is_ok_and(|word| word == "all") {
        return [simple, rest].concat();
    }
    let mut random = Random::from_seed(34);
    let drawn = SAMPLE.min(rest.len());
    let mut draw = || rest.swap_remove(random.below(rest.len() as u64) as usize);
    let sample = (0..drawn).map(|_| draw()).collect();
    [simple, sample].concat()
}

fn try_all(original: &tempfile::TempDir, profile: Profile, subjects: &[Subject]) {
    let (mut served, mut refused) = (0, 0);
    for row in tried(subjects.len()) {
        let folder = tempfile::tempdir().unwrap();
        copy_folder(original.path(), folder.path());
        subjects.iter().zip(&row).for_each(|(file, state)| damage(folder.path(), file, *state));
        let places = subjects.iter().map(|file| file.place);
        let what: Vec<_> = places.zip(&row).filter(|(_, state)| **state != State::Sound).collect();
        let what = format!("{what:?}");
        match Start::begin(folder.path(), profile).outcome(&what) {
            "serves" => served += 1,
            _ => refused += 1,
        }
        if row.iter().all(|state| *state == State::Sound) {
            assert_eq!(refused, 0, "sound files are loaded");
        }
    }
    println!("{served} served, {refused} refused");
    assert!(served > 0 && refused > 0);
}

#[test]
fn a_server_without_a_log_serves_or_says_why_not() {
    try_all(&left_behind(false), Profile::Server, &[CONFIGURATION, USERS, SNAPSHOT]);
}

#[test]
fn a_server_with_a_log_serves_or_says_why_not() {
    try_all(
        &left_behind(true),
        Profile::Server,
        &[CONFIGURATION, USERS, MANIFEST, BASE, INCREMENT],
    );
}

#[test]
fn a_sentinel_serves_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "sentinel myid {}\nsentinel monitor mymaster 127.0.0.1 1 2\n\
         sentinel config-epoch mymaster 3\nsentinel known-replica mymaster 127.0.0.1 2\n\
         sentinel known-sentinel mymaster 127.0.0.1 3 {}\nsentinel current-epoch 3\n",
        "1".repeat(40),
        "2".repeat(40)
    );
    fs::write(folder.path().join("apus.conf"), text).unwrap();
    try_all(&folder, Profile::Sentinel, &[SENTINEL]);
}

/// A file that is missing or empty is that of a new node.
#[test]
fn a_node_of_a_cluster_serves_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let own = format!(
        "{} 127.0.0.1:7000@17000,,tls-port=0,shard-id={} myself,master - 0 0 3 connected 0-8191",
        "1".repeat(40),
        "3".repeat(40)
    );
    let other = format!(
        "{} 127.0.0.1:7001@17001,,tls-port=0,shard-id={} master - 0 0 2 connected 8192-16383",
        "2".repeat(40),
        "4".repeat(40)
    );
    let text = format!("{own}\n{other}\nvars currentEpoch 3 lastVoteEpoch 3\n");
    fs::write(folder.path().join("nodes.conf"), text).unwrap();
    let text = format!("cluster-enabled yes\ncluster-port {}\n", free_port());
    fs::write(folder.path().join("apus.conf"), text).unwrap();
    try_all(&folder, Profile::Node, &[NODES]);
}

/// Certificates, their keys and authorities are files that others bring, and at any time.
#[test]
fn a_server_with_certificates_serves_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::new();
    let own = authority.issue("localhost", None);
    let text = "tls-replication yes\ntls-cert-file server.crt\ntls-key-file server.key\n\
                tls-ca-cert-file ca.crt\n";
    fs::write(folder.path().join("apus.conf"), text).unwrap();
    for (from, to) in
        [(&own.certificate, "server.crt"), (&own.key, "server.key"), (&authority.file(), "ca.crt")]
    {
        fs::copy(from, folder.path().join(to)).unwrap();
    }
    try_all(&folder, Profile::Server, &[CERTIFICATE, KEY, AUTHORITIES]);
}
