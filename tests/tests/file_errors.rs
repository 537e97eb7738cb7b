//! Files that cannot be read, or hold what they should not: a start and `apus check` name the file,
//! and the line or the offset in it.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use base::crc::crc64;
use tests::folder::copy_folder;
use tests::server::eventually;
use tests::{Server, environment};

const LIBRARY: &str = "#!lua name=mylib\nredis.register_function('f', function() return 1 end)";

/// Longer than any start takes that fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A user that owns no files.
const NOBODY: u32 = 65534;

const SNAPSHOT: &str = "dump.rdb";
const MANIFEST: &str = "appendonlydir/appendonly.aof.manifest";
const BASE: &str = "appendonlydir/appendonly.aof.2.base.rdb";
const INCREMENT: &str = "appendonlydir/appendonly.aof.2.incr.aof";
const USERS: &str = "users.acl";

/// What is done to a file, and what is told then.
struct Row {
    file: &'static str,
    change: Change,
    /// What a start says, beside the file's name.
    start: &'static str,
    /// What `apus check` says, beside it.
    check: Option<&'static str>,
}

enum Change {
    /// A text in it becomes another of the same length. A snapshot is sealed again.
    Text(&'static str, &'static str),
    /// The same, but its checksum stays.
    Flip(&'static str, &'static str),
    /// The owner of the file alone may read it.
    Unreadable,
    /// The file may be read, not written.
    Unwritable,
    Gone,
    Cut,
}

const fn row(
    file: &'static str,
    change: Change,
    start: &'static str,
    check: Option<&'static str>,
) -> Row {
    Row { file, change, start, check }
}

const ROWS: &[Row] = &[
    row(
        SNAPSHOT,
        Change::Text("return 1 end", "return 1 enx"),
        "the library of functions 'mylib' fails: ERR Error compiling function:",
        Some("the library of functions 'mylib' fails: ERR Error compiling function:"),
    ),
    row(
        SNAPSHOT,
        Change::Text("#!lua name=mylib", "#!lua nane=mylib"),
        "a library of functions fails: ERR Invalid metadata value given: nane=mylib",
        Some("a library of functions fails: ERR Invalid metadata value given: nane=mylib"),
    ),
    row(SNAPSHOT, Change::Flip("key1", "kez1"), "the checksum is wrong", Some("at offset ")),
    row(SNAPSHOT, Change::Flip("REDIS", "REDOS"), "at offset 0", Some("at offset 0")),
    row(SNAPSHOT, Change::Cut, "the file is cut off", Some("the file is cut off")),
    row(SNAPSHOT, Change::Unreadable, "Permission denied", Some("Permission denied")),
    row(BASE, Change::Flip("key1", "kez1"), "the checksum is wrong", Some("the checksum is wrong")),
    row(
        BASE,
        Change::Text("return 1 end", "return 1 enx"),
        "the library of functions 'mylib' fails",
        Some("the library of functions 'mylib' fails"),
    ),
    row(BASE, Change::Unreadable, "Permission denied", Some("Permission denied")),
    row(BASE, Change::Gone, "No such file", Some("No such file")),
    row(INCREMENT, Change::Flip("SET", "SEX"), "at offset ", Some("at offset ")),
    row(INCREMENT, Change::Flip("ninth", "ninht"), "at offset ", Some("at offset ")),
    row(INCREMENT, Change::Unreadable, "Permission denied", Some("Permission denied")),
    row(INCREMENT, Change::Unwritable, "Permission denied", None),
    row(INCREMENT, Change::Gone, "No such file", Some("No such file")),
    row(MANIFEST, Change::Flip("type i", "type z"), "line 1", Some("line 1")),
    row(MANIFEST, Change::Flip("seq 2", "sep 2"), "line 1", Some("line 1")),
    row(MANIFEST, Change::Unreadable, "Permission denied", Some("Permission denied")),
    row(USERS, Change::Flip("+get", "+gex"), "users.acl:2", None),
    row(USERS, Change::Flip("user b", "usex b"), "users.acl:3", None),
    row(USERS, Change::Unreadable, "Permission denied", None),
    row(USERS, Change::Gone, "No such file", None),
];

/// A folder with a snapshot, a log of two files, and users.
fn fill(folder: &Path) {
    let log = ["--appendonly", "yes", "--save", "", "--enable-debug-command", "yes"];
    let server = Server::start(&log);
    let mut client = server.client();
    client.call(&["FUNCTION", "LOAD", LIBRARY]);
    client.call(&["SET", "key1", "v"]);
    client.call(&["BGREWRITEAOF"]);
    eventually("the log has a base", || {
        client.info("aof_rewrite_in_progress") == "0" && client.info("aof_rewrites") == "1"
    });
    for value in ["first", "ninth", "last"] {
        client.call(&["SET", "key1", value]);
    }
    client.call(&["SAVE"]);
    let from = server.folder().to_path_buf();
    fs::create_dir(folder.join("appendonlydir")).unwrap();
    copy_folder(&from.join("appendonlydir"), &folder.join("appendonlydir"));
    fs::copy(from.join(SNAPSHOT), folder.join(SNAPSHOT)).unwrap();
    let users = "user default on nopass ~* +@all\nuser a on nopass ~* +get\nuser b on +get\n";
    fs::write(folder.join(USERS), users).unwrap();
}

fn replace(bytes: &mut [u8], from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    let at = bytes.windows(from.len()).position(|window| window == from.as_bytes());
    let at = at.unwrap_or_else(|| panic!("{from} is in the file"));
    bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
}

fn change(path: &Path, change: &Change) {
    let mut bytes = fs::read(path).unwrap();
    match change {
        Change::Text(from, to) => {
            replace(&mut bytes, from, to);
            let end = bytes.len() - 8;
            let seal = crc64(0, &bytes[..end]).to_le_bytes();
            bytes[end..].copy_from_slice(&seal);
        }
        Change::Flip(from, to) => replace(&mut bytes, from, to),
        Change::Cut => bytes.truncate(bytes.len() - 20),
        Change::Gone => return fs::remove_file(path).unwrap(),
        Change::Unreadable => return set_mode(path, 0o000),
        Change::Unwritable => return set_mode(path, 0o444),
    }
    fs::write(path, bytes).unwrap();
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// The server, where a user may run it to which modes apply; a copy, as the way to it may be
/// closed.
struct Program {
    folder: tempfile::TempDir,
    is_nobody: bool,
}

impl Program {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        set_mode(folder.path(), 0o755);
        fs::copy(environment::binary(), folder.path().join("apus")).unwrap();
        let is_nobody = fs::metadata("/proc/self").unwrap().uid() == 0;
        Self { folder, is_nobody }
    }

    fn output(&self, folder: &Path, arguments: &[&str]) -> io::Result<Output> {
        let mut command = Command::new(self.folder.path().join("apus"));
        command.current_dir(folder).args(arguments);
        if self.is_nobody {
            command.uid(NOBODY).gid(NOBODY);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let began = Instant::now();
        while child.try_wait()?.is_none() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
        // One that serves is ended, and has no code.
        let _ = child.kill();
        child.wait_with_output()
    }

    /// Whether modes apply: they do not to root, and on some machines nobody gets nowhere.
    fn heeds_modes(&mut self) -> bool {
        let folder = self.folder.path().to_path_buf();
        let runs = self.output(&folder, &["--version"]).is_ok_and(|it| it.status.success());
        let was_nobody = self.is_nobody;
        self.is_nobody &= runs;
        runs || !was_nobody
    }

    /// What a run that fails says.
    fn said(&self, folder: &Path, arguments: &[&str]) -> String {
        let output = self.output(folder, arguments).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    }
}

#[test]
fn an_error_of_a_file_names_it_and_the_place() {
    let original = tempfile::tempdir().unwrap();
    fill(original.path());
    let mut program = Program::new();
    let heeds_modes = program.heeds_modes();
    for Row { file, change: what, start, check } in ROWS {
        if matches!(what, Change::Unreadable | Change::Unwritable) && !heeds_modes {
            println!("{file}: modes do not apply here");
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        copy_folder(original.path(), path);
        set_mode(path, 0o777);
        set_mode(&path.join("appendonlydir"), 0o777);
        for each in [SNAPSHOT, MANIFEST, BASE, INCREMENT, USERS] {
            set_mode(&path.join(each), 0o666);
        }
        change(&path.join(file), what);
        let name = Path::new(file).file_name().unwrap().to_str().unwrap();
        let has_log = if file.starts_with("appendonlydir") { "yes" } else { "no" };
        let users: &[&str] = if *file == USERS { &["--aclfile", USERS] } else { &[] };
        let own = ["--port", "0", "--unixsocket", "socket", "--save", "", "--appendonly", has_log];
        // An end that may not be on disk yet is refused, too.
        let strict = ["--aof-load-truncated", "no"];
        let told = program.said(path, &[&own[..], &strict, users].concat());
        let why = told.lines().filter(|line| !line.contains(" * ")).collect::<String>();
        assert!(why.contains(name) && why.contains(start), "{file}, {start}: {told}");
        let Some(check) = check else { continue };
        let (kind, checked) = match has_log {
            "yes" => ("aof", MANIFEST),
            _ => ("rdb", *file),
        };
        let told = program.said(path, &["check", kind, checked]);
        let named = told.lines().any(|line| line.contains(name) && line.contains(check));
        assert!(named, "{file}, {check}: {told}");
    }
}

/// Where the log begins there is no file yet that a line could name.
#[test]
fn an_error_of_a_log_that_is_to_begin_names_its_place() {
    let mut program = Program::new();
    if !program.heeds_modes() {
        println!("modes do not apply here");
        return;
    }
    let cases = [
        ("Can't open or create append-only dir", "appendonlydir", &[][..], "."),
        ("Can't create the AOF base file in", "appendonlydir", &["appendonlydir"], "appendonlydir"),
        ("Can't upgrade the old AOF file", "appendonly.aof", &["appendonlydir"], "."),
    ];
    for (says, names, directories, closed) in cases {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        for directory in directories {
            fs::create_dir(path.join(directory)).unwrap();
            set_mode(&path.join(directory), 0o777);
        }
        if names == "appendonly.aof" {
            fs::write(path.join(names), "").unwrap();
            set_mode(&path.join(names), 0o666);
        }
        set_mode(path, 0o777);
        set_mode(&path.join(closed), 0o555);
        let socket = tempfile::tempdir().unwrap();
        set_mode(socket.path(), 0o777);
        let socket = socket.path().join("socket");
        let own = ["--port", "0", "--unixsocket", socket.to_str().unwrap(), "--save", ""];
        let told = program.said(path, &[&own[..], &["--appendonly", "yes"]].concat());
        let place = path.join(names).display().to_string();
        let is_named = |line: &str| line.contains(says) && line.contains(&place);
        assert!(told.lines().any(is_named), "{says}, {place}: {told}");
    }
}

/// The commands of a log are looked at only as far as a start would stop at them.
#[test]
fn a_check_of_a_log_compiles_the_libraries_that_it_loads() {
    let program = Program::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("some.aof");
    let broken = LIBRARY.replace(" end)", " enx)");
    for (words, why) in [
        (vec!["FUNCTION", "LOAD", LIBRARY], None),
        (vec!["function", "load", "REPLACE", LIBRARY], None),
        (vec!["FUNCTION", "LOAD", "replace", &broken], Some("'mylib' fails: ERR Error compiling")),
        (vec!["FUNCTION", "LOAD", "return 1"], Some("Missing library metadata")),
        (vec!["SET", "FUNCTION", &broken], None),
    ] {
        let first = tests::client::encode(&["SET", "k", "v"]);
        let log = [first.clone(), tests::client::encode(&words)].concat();
        fs::write(&path, log).unwrap();
        set_mode(folder.path(), 0o755);
        set_mode(&path, 0o644);
        let output = program.output(folder.path(), &["check", "aof", "some.aof"]).unwrap();
        let told = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), why.is_none(), "{words:?}: {told}");
        if let Some(why) = why {
            let place = format!("AOF some.aof is not valid, at offset {}:", first.len());
            assert!(told.contains(&place) && told.contains(why), "{words:?}: {told}");
        }
    }
}
