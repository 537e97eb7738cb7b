//! What the process may do: `run-as-user`, which gives up the rights of root, and `sandbox`, which
//! leaves the files of the configuration and the system calls that are needed.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, chown};
use std::path::Path;

use landlock::{ABI, Access, AccessFs, CompatLevel, Compatible, Ruleset, RulesetAttr};
use proto::value::Value;
use tests::render::render;
use tests::server::{eventually, free_port};
use tests::tls::Authority;
use tests::{Client, Server, check};

const NOBODY: u32 = 65_534;

/// Whether the kernel can confine a process to files.
fn has_landlock() -> bool {
    let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    let handled = ruleset.handle_access(AccessFs::from_all(ABI::V1));
    handled.is_ok_and(|ruleset| ruleset.create().is_ok())
}

/// Lines of the kernel's account of a process, one for each of its threads.
fn of_threads(server: &Server, name: &str) -> Vec<String> {
    let tasks = fs::read_dir(format!("/proc/{}/task", server.pid())).unwrap();
    // A thread may end meanwhile.
    let told = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("status")).ok());
    let line = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap().trim().to_owned()
    };
    told.map(line).collect()
}

fn error(client: &mut Client, arguments: &[&str]) -> String {
    match client.call(arguments) {
        Value::Error(error) => String::from_utf8_lossy(&error).into_owned(),
        other => panic!("{arguments:?}: {other:?}"),
    }
}

/// What a server does with its files, its threads and its replica.
#[test]
fn a_confined_server_does_what_others_do() {
    let prepare = |folder: &Path| fs::write(folder.join("users.acl"), "").unwrap();
    let text = "sandbox yes\nappendonly yes\nenable-debug-command yes\naclfile users.acl\n";
    let mut server = Server::start_configured(prepare, text, &[]);
    let mut client = server.client();
    check(
        &mut client,
        "> SET a 1\nOK\n> SAVE\nOK\n> EVAL \"return redis.call('GET','a')\" 0\n\"1\"",
    );
    check(&mut client, "> ACL SETUSER bob on >word +ping\nOK\n> ACL SAVE\nOK");
    check(&mut client, "> CONFIG SET worker-threads 3 maxclients 500\nOK\n> CONFIG REWRITE\nOK");
    client.call(&["BGREWRITEAOF"]);
    server.expect_log("Background AOF rewrite finished successfully");
    let replica = Server::start(&["--sandbox", "yes"]);
    replica.client().call(&["REPLICAOF", "127.0.0.1", &server.port().to_string()]);
    eventually("the replica has it", || {
        replica.client().call(&["GET", "a"]) == Value::Bulk(b"1".to_vec())
    });
    drop(replica);
    assert!(of_threads(&server, "Seccomp").iter().all(|mode| mode == "2"));
    assert!(of_threads(&server, "NoNewPrivs").iter().all(|is_set| is_set == "1"));
    server.kill();
    server.restart();
    check(&mut server.client(), "> GET a\n\"1\"\n> AUTH bob word\nOK");
    let mut client = server.client();
    check(&mut client, "> CONFIG GET maxclients\n1) \"maxclients\"\n2) \"500\"");
}

/// Has a server read certificates from where they lie.
fn read_certificates(client: &mut Client, own: &[String]) -> Value {
    let pairs = own.iter().map(|word| word.trim_start_matches("--"));
    let words: Vec<&str> =
        ["CONFIG", "SET", "tls-replication", "yes"].into_iter().chain(pairs).collect();
    client.call(&words)
}

#[test]
fn what_the_configuration_does_not_name_is_out_of_reach() {
    let server = Server::start(&["--sandbox", "yes", "--enable-protected-configs", "yes"]);
    let mut client = server.client();
    let authority = Authority::new();
    let elsewhere = authority.folder().to_str().unwrap();
    let refused = error(&mut client, &["CONFIG", "SET", "dir", elsewhere]);
    assert!(refused.contains("the sandbox confines the server to the directory"), "{refused}");
    let own = authority.arguments(&authority.issue("localhost", None));
    if has_landlock() {
        server.expect_log("Sandbox: only the files of the configuration can be reached");
        match read_certificates(&mut client, &own) {
            Value::Error(refused) => assert!(
                String::from_utf8_lossy(&refused).contains("Permission denied"),
                "{}",
                refused.escape_ascii()
            ),
            other => panic!("{other:?}"),
        }
    } else {
        server.expect_log("Sandbox: this kernel has no Landlock, all files can be reached");
    }
    // What lies in its own folder can be read.
    let near = own.iter().map(|word| match word.strip_prefix(elsewhere) {
        Some(name) => {
            fs::copy(word, format!("{}{name}", server.folder().display())).unwrap();
            format!("{}{name}", server.folder().display())
        }
        None => word.clone(),
    });
    let near: Vec<String> = near.collect();
    assert_eq!(read_certificates(&mut client, &near), Value::Simple(b"OK".to_vec()));
    // Without a sandbox all of it can.
    let free = Server::start(&[]);
    assert_eq!(read_certificates(&mut free.client(), &own), Value::Simple(b"OK".to_vec()));
    assert!(of_threads(&free, "Seccomp").iter().all(|mode| mode == "0"));
}

/// BACKUP makes folders and links beside the log, and removes them.
#[test]
fn a_confined_server_makes_backups() {
    for has_log in ["no", "yes"] {
        let server = Server::start(&["--sandbox", "yes", "--appendonly", has_log]);
        let mut client = server.client();
        let state = |client: &mut Client| render(&client.call(&["BACKUP", "STATUS"]));
        check(&mut client, "> SET a 1\nOK\n> BACKUP START\nOK");
        eventually("increments are written", || state(&mut client).contains("incrementing"));
        check(&mut client, "> SET b 2\nOK\n> BACKUP SEAL\nOK");
        eventually("the backup is sealed", || state(&mut client).contains("sealed"));
        let Value::Array(files) = client.call(&["BACKUP", "LIST"]) else { panic!("a list") };
        assert!(!files.is_empty());
        for file in &files {
            let path = String::from_utf8_lossy(file.as_bytes().unwrap()).into_owned();
            assert!(fs::metadata(&path).is_ok_and(|file| file.len() > 0), "{path}");
        }
        check(&mut client, "> BACKUP CLEANUP\nOK");
        eventually("nothing is left of it", || state(&mut client).contains("idle"));
    }
}

#[test]
fn a_confined_server_tells_of_its_crash() {
    let mut server = Server::start(&["--sandbox", "yes", "--enable-debug-command", "yes"]);
    server.may_panic();
    let _ = server.client().try_call(&["DEBUG", "SEGFAULT"]);
    server.wait_for_log("crashed by signal");
    server.wait_for_log("BUG REPORT END");
}

#[test]
fn root_gives_its_rights_up_for_those_of_a_user() {
    if !rustix::process::geteuid().is_root() {
        let (status, log) = Server::refuses(&["--port", "0", "--run-as-user", "nobody"]);
        assert!(!status.success() && log.contains("only root can"), "{log}");
        return;
    }
    let give = |folder: &Path| chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
    let server = Server::start_prepared(give, &["--run-as-user", "nobody"]);
    for name in ["Uid", "Gid"] {
        let all = of_threads(&server, name);
        assert!(all.iter().all(|ids| ids.split_whitespace().all(|id| id == "65534")), "{all:?}");
    }
    let rights = of_threads(&server, "CapPrm");
    assert!(rights.iter().all(|rights| rights == "0000000000000000"), "{rights:?}");
    assert!(of_threads(&server, "Groups").iter().all(String::is_empty));
    assert!(!server.log().contains("runs as root"), "{}", server.log());
    check(&mut server.client(), "> SET a 1\nOK\n> SAVE\nOK");
    let file = fs::metadata(server.folder().join("dump.rdb")).unwrap();
    assert_eq!(file.uid(), NOBODY);
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let port = (900..1024).find(is_free).unwrap();
    let text = port.to_string();
    // A port that is root's leaves the right to such ports, and no other.
    let server = Server::start_prepared(give, &["--run-as-user", "nobody", "--http-port", &text]);
    let rights = of_threads(&server, "CapPrm");
    assert!(rights.iter().all(|rights| rights == "0000000000000400"), "{rights:?}");
    assert!(TcpStream::connect(("127.0.0.1", port)).is_ok());
    let root = Server::start(&[]);
    root.expect_log("WARNING: the server runs as root");
}

#[test]
fn a_user_that_there_is_not_keeps_the_server_from_starting() {
    let port = free_port().to_string();
    let (status, log) = Server::refuses(&["--port", &port, "--run-as-user", "no-such-user"]);
    assert!(!status.success());
    assert!(log.contains("Can't find the user no-such-user in /etc/passwd"), "{log}");
}

#[test]
fn a_sentinel_has_no_sandbox() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("sentinel.conf");
    fs::write(&file, format!("port {}\n", free_port())).unwrap();
    let file = file.display().to_string();
    let (status, log) = Server::refuses(&["sentinel", &file, "--sandbox", "yes"]);
    assert!(!status.success());
    assert!(log.contains("sandbox: a Sentinel runs scripts"), "{log}");
}
