//! The command line of memcached: `apus memcached`, and the binary under that name.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use tests::environment::{binary, recorded};
use tests::memcached::{Memcached, Packet};
use tests::server::{Server, eventually, free_port};

/// A user that asks for the version or for help gets them, whatever the program is called by.
#[test]
fn the_name_of_the_program_is_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let named = folder.path().join("memcached");
    std::os::unix::fs::symlink(binary(), &named).expect("a link");
    for (program, first) in [(named, None), (binary(), Some("memcached"))] {
        let run = |word: &str| {
            let output = Command::new(&program).args(first).arg(word).output();
            let output = output.expect("it runs");
            assert!(output.status.success(), "{word}");
            String::from_utf8(output.stdout).expect("it prints text")
        };
        assert!(run("-V").starts_with("memcached 1.6."));
        assert!(run("--help").contains("--memory-limit=ARGUMENT"));
    }
}

#[test]
fn options_do_what_they_say() {
    let server = Memcached::start_ours(&["-I", "2k", "-m", "100", "-M", "-c", "77", "-F", "-A"]);
    let mut connection = server.connect();
    let settings = connection.line("stats settings\r\n");
    for setting in ["item_size_max 2048", "maxbytes 104857600", "maxconns 77", "evictions off"] {
        assert!(settings.contains(&format!("STAT {setting}\r\n")), "{setting}: {settings}");
    }
    let large = format!("set k 0 0 2049\r\n{}\r\n", "x".repeat(2049));
    assert_eq!(connection.line(&large), "SERVER_ERROR object too large for cache\r\n");
    let refused = connection.line("flush_all\r\n");
    assert!(refused.starts_with("CLIENT_ERROR flush_all not allowed"), "{refused}");
    connection.send(b"shutdown\r\n");
    assert_eq!(connection.rest(), b"", "it ends");
}

#[test]
fn a_delimiter_counts_by_prefix_from_the_start() {
    let server = Memcached::start_ours(&["-D", "/"]);
    let mut connection = server.connect();
    let settings = connection.line("stats settings\r\n");
    assert!(settings.contains("STAT detail_enabled yes\r\n"), "{settings}");
    assert_eq!(connection.line("set a:b/c 0 0 1\r\nx\r\n"), "STORED\r\n");
    assert_eq!(connection.line("delete a:b/c\r\n"), "DELETED\r\n");
    let told = connection.line("stats detail dump\r\n");
    assert_eq!(told, "PREFIX a:b get 0 hit 0 set 1 del 1\r\nEND\r\n");
}

#[test]
fn a_password_file_closes_the_door() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("users");
    std::fs::write(&file, "me:secret\nyou:other\n").expect("a file");
    let path = file.to_str().expect("a simple path");
    for arguments in [&["-Y", path][..], &["-S", "-Y", path]] {
        let server = Memcached::start_ours(arguments);
        let mut user = server.connect();
        let said = user.line(
            "get k\r\nset auth 0 0 8\r\nme wrong\r\nget k\r\nset auth 0 0 9\r\nme secret\r\n",
        );
        let (stranger, wrong) =
            ("CLIENT_ERROR unauthenticated\r\n", "CLIENT_ERROR authentication failure\r\n");
        assert_eq!(said, format!("{stranger}{wrong}{stranger}STORED\r\n"));
        assert_eq!(user.line("get k\r\n"), "END\r\n");
        let attempt = |proof: &[u8]| {
            let packet = Packet::new(0x21, b"", b"PLAIN", proof);
            let packets = server.connect().packets(&packet.request());
            packets.first().map(|packet| packet.status)
        };
        assert_eq!(attempt(b"\0me\0wrong"), Some(0x20));
        assert_eq!(attempt(b"\0me\0secret"), Some(0));
        assert_eq!(attempt(b"\0you\0secret"), Some(0x20));
        assert_eq!(attempt(b"\0you\0other"), Some(0));
        assert!(!server.log().contains("secret"));
    }
    let (status, said) = Server::refuses(&["memcached", "-S"]);
    assert!(!status.success() && said.contains("-S wants a file"), "{said}");
}

#[test]
fn a_unix_socket_stands_in_the_place_of_ports() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("memcached.sock");
    let mut command = Command::new(binary());
    command.current_dir(folder.path()).args(["memcached", "-s", "memcached.sock", "-a", "0700"]);
    let mut child = command.spawn().expect("it starts");
    eventually("the socket is there", || UnixStream::connect(&socket).is_ok());
    assert_eq!(permissions(&socket), 0o700);
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

fn permissions(path: &Path) -> u32 {
    path.metadata().expect("it is there").permissions().mode() & 0o777
}

/// Whose rights a server has, and that it serves; as in memcached, a server that is not root's
/// stays.
#[test]
fn root_gives_up_its_rights_for_those_of_the_user() {
    let identity = |server: &Memcached| {
        let report = server.connect().line("set k 0 0 1\r\n1\r\nstats\r\n");
        let id = report.lines().find_map(|line| line.strip_prefix("STAT pid ")).expect("a line");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let lines = status.lines().filter(|line| {
            line.split(':').next().is_some_and(|name| ["Uid", "Gid", "CapEff"].contains(&name))
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    for arguments in [&["-u", "nobody"][..], &["-u", "nobody", "-u", "root"]] {
        let (ours, theirs) = (Memcached::start_ours(arguments), Memcached::start(arguments));
        assert_eq!(identity(&ours), identity(&theirs), "{arguments:?}");
    }
    if rustix::process::geteuid().is_root() {
        let (status, said) = Server::refuses(&["memcached", "-u", "no such user"]);
        assert!(!status.success() && said.contains("Can't find the user no such user"), "{said}");
    }
}

/// As in memcached, whatever the umask leaves.
#[test]
fn a_socket_without_a_configured_mode_is_for_its_user_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    for (program, first) in [(binary(), &["memcached"][..]), (recorded("memcached"), &[])] {
        let socket = folder.path().join("open.sock");
        let mut command = Command::new(program);
        command.current_dir(folder.path()).args(first).args(["-s", "open.sock", "-u", "root"]);
        let mut child = command.spawn().expect("it starts");
        eventually("the socket is there", || UnixStream::connect(&socket).is_ok());
        let mode = permissions(&socket);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        std::fs::remove_file(&socket).expect("it is there");
        assert_eq!(mode, 0o700);
    }
}

/// `-d` and `-P`: the parent ends when the daemon serves.
#[test]
fn a_daemon_leaves_its_process_id() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, port) = (folder.path().join("memcached.pid"), free_port().to_string());
    let mut command = Command::new(binary());
    command.current_dir(folder.path()).args(["memcached", "-d", "-l", "127.0.0.1", "-p", &port]);
    let status = command.arg("-P").arg(&file).status().expect("it starts");
    assert!(status.success());
    let id = std::fs::read_to_string(&file).expect("a file with its id");
    let mut connection = tests::memcached::Connection::to(port.parse().expect("a port"));
    let pid = format!("STAT pid {}\r\n", id.trim());
    assert!(connection.line("stats\r\n").contains(&pid));
    let id = id.trim().parse().ok().and_then(rustix::process::Pid::from_raw).expect("an id");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it runs");
    assert_eq!(connection.rest(), b"", "it ends in order");
}
