//! Encrypted connections of Redis' clients: what is shown, asked for and refused, what changes
//! while clients are connected, and peers that mean no good.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use proto::value::Value;
use rustls::ClientConfig;
use tests::client::field;
use tests::environment::recorded;
use tests::server::{eventually, free_port};
use tests::tls::{Authority, Identity, open};
use tests::{Client, Server};

fn connect(port: u16, config: &Arc<ClientConfig>) -> Client {
    Client::try_connect_tls(port, config).unwrap()
}

/// Whether a client with this configuration is served.
fn is_served(port: u16, config: &Arc<ClientConfig>) -> bool {
    let client = Client::try_connect_tls(port, config);
    client.is_ok_and(|mut client| client.try_call(&["PING"]).is_ok())
}

fn ok() -> Value {
    Value::Simple(b"OK".to_vec())
}

fn text(value: &Value) -> String {
    match value {
        Value::Error(error) => String::from_utf8_lossy(error).into_owned(),
        other => String::from_utf8_lossy(other.as_bytes().unwrap_or_default()).into_owned(),
    }
}

fn who(client: &mut Client) -> String {
    text(&client.call(&["ACL", "WHOAMI"]))
}

fn set(client: &mut Client, name: &str, value: &str) -> Value {
    client.call(&["CONFIG", "SET", name, value])
}

#[test]
fn what_is_said_arrives_whatever_its_size() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let config = authority.client_config(None);
    let mut client = connect(port, &config);
    for size in [0, 1, 16_383, 16_384, 16_385, 65_536, 3_000_001] {
        let value: Vec<u8> = (0..size).map(|place: usize| (place * 31 % 251) as u8).collect();
        assert_eq!(client.call(&[b"SET", &b"k"[..], &value]), ok());
        assert_eq!(client.call(&["GET", "k"]), Value::Bulk(value));
    }
    // What is not read for a while waits, and then comes whole.
    let gets = vec![vec!["GET", "k"]; 20];
    let whole = client.call(&["GET", "k"]);
    assert!(client.pipeline(&gets).iter().all(|reply| *reply == whole));
    let many: Vec<Vec<String>> =
        (0..5000).map(|i| vec!["SET".into(), format!("n{i}"), format!("{i}")]).collect();
    assert!(client.pipeline(&many).iter().all(|reply| *reply == ok()));
    assert_eq!(client.call(&["DBSIZE"]), Value::Integer(5001));
    assert_eq!(server.client().call(&["GET", "n77"]), Value::Bulk(b"77".to_vec()));
}

#[test]
fn clients_are_told_apart_and_counted() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut plain = server.client();
    let mut client = connect(port, &authority.client_config(None));
    let id = client.id();
    let line = text(&plain.call(&["CLIENT", "LIST", "ID", &id]));
    assert_eq!(field(&line, "tls"), "TLSv1.3");
    let own = text(&plain.call(&["CLIENT", "INFO"]));
    assert!(!own.contains(" tls="), "{own}");
    assert_eq!(plain.figure("tls_handshakes_full"), 1);
    assert!(plain.figure("tls_server_cert_expires_in_seconds") > 0);
    assert!(!plain.info("tls_ca_cert_serial").is_empty());
    // A second one with the same configuration resumes the session.
    drop(client);
    let config = authority.client_config(None);
    for _ in 0..2 {
        connect(port, &config).call(&["PING"]);
    }
    assert_eq!(plain.figure("tls_handshakes_resumed"), 1);
    assert_eq!(set(&mut plain, "tls-session-caching", "no"), ok());
    let config = authority.client_config(None);
    for _ in 0..2 {
        connect(port, &config).call(&["PING"]);
    }
    assert_eq!(plain.figure("tls_handshakes_resumed"), 1);
}

#[test]
fn certificates_of_clients_are_asked_for_as_configured() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut plain = server.client();
    let own = authority.client_config(Some(&authority.issue("alice", None)));
    let other = Authority::new();
    let foreign = authority.client_config(Some(&other.issue("alice", None)));
    let none = authority.client_config(None);
    for (word, expected) in
        [("yes", [true, false, false]), ("optional", [true, false, true]), ("no", [true; 3])]
    {
        assert_eq!(set(&mut plain, "tls-auth-clients", word), ok());
        let served = [&own, &foreign, &none].map(|config| is_served(port, config));
        assert_eq!(served, expected, "{word}");
    }
    assert_eq!(set(&mut plain, "tls-ca-cert-file", ""), ok());
    let refused = text(&set(&mut plain, "tls-auth-clients", "yes"));
    assert!(refused.contains("tls-ca-cert-file"), "{refused}");
}

/// A certificate that signs itself is trusted where it is itself among those that are, as OpenSSL
/// has it.
#[test]
fn a_certificate_may_be_its_own_authority() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    let file = |name: &str, text: &str| {
        let path = authority.folder().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let own = Identity {
        certificate: file("self.crt", &pem),
        key: file("self.key", &key.serialize_pem()),
    };
    let config = authority.client_config(Some(&own));
    assert!(!is_served(port, &config));
    let path = own.certificate.display().to_string();
    assert_eq!(set(&mut server.client(), "tls-ca-cert-file", &path), ok());
    assert!(is_served(port, &config));
}

/// H87: a name with a NUL in it is not that of the user whose name stands before it.
#[test]
fn h87_a_certificate_names_its_user_to_the_last_byte() {
    let authority = Authority::new();
    let (server, port) = authority.start(&[]);
    let mut plain = server.client();
    for user in ["alice", "admin", "spiffe://example/bob", "off"] {
        let on = if user == "off" { "off" } else { "on" };
        plain.call(&["ACL", "SETUSER", user, on, "+@all", "~*", "&*"]);
    }
    let name = |name: &str, uri| {
        let config = authority.client_config(Some(&authority.issue(name, uri)));
        who(&mut connect(port, &config))
    };
    assert_eq!(name("alice", None), "default");
    assert_eq!(set(&mut plain, "tls-auth-clients-user", "CN"), ok());
    assert_eq!(name("alice", None), "alice");
    assert_eq!(name("Alice", None), "default");
    assert_eq!(name("nobody", None), "default");
    assert_eq!(name("off", None), "default");
    assert_eq!(name("admin\0.example", None), "default");
    assert_eq!(name("alice", Some("spiffe://example/bob")), "alice");
    assert_eq!(set(&mut plain, "tls-auth-clients-user", "URI"), ok());
    assert_eq!(name("alice", Some("spiffe://example/bob")), "spiffe://example/bob");
    assert_eq!(name("alice", None), "default");
    // Where the default user is off, a client without a user of its own is nobody.
    plain.call(&["ACL", "SETUSER", "default", "off"]);
    let config = authority.client_config(Some(&authority.issue("bob", None)));
    let refused = text(&connect(port, &config).call(&["PING"]));
    assert!(refused.starts_with("NOAUTH"), "{refused}");
}

#[test]
fn new_certificates_are_for_new_clients_and_broken_ones_for_nobody() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut plain = server.client();
    let config = authority.client_config(None);
    let mut before = connect(port, &config);
    let other = authority.issue("localhost", None);
    let [certificate, key] = [&other.certificate, &other.key].map(|it| it.display().to_string());
    let broken = authority.folder().join("broken.pem").display().to_string();
    std::fs::write(&broken, "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        .unwrap();
    for (name, value, word) in [
        ("tls-cert-file", &*broken, "tls-cert-file"),
        ("tls-cert-file", "/no/such/file", "No such file"),
        ("tls-cert-file", &*certificate, "is not the key of the certificate"),
        ("tls-key-file", &*certificate, "has no key in PEM"),
        ("tls-ca-cert-file", &*broken, "tls-ca-cert-file"),
        ("tls-ca-cert-dir", "/no/such/folder", "No such file"),
        ("tls-protocols", "TLSv1.1", "use TLSv1.2, TLSv1.3 or both"),
        ("tls-ciphers", "AES128-SHA", "'AES128-SHA' is not spoken here: use ECDHE-"),
        ("tls-ciphersuites", "NOSUCH", "'NOSUCH' is not spoken here: use TLS_"),
        ("tls-groups", "ffdhe2048", "'ffdhe2048' is not spoken here: use X25519"),
        ("tls-dh-params-file", "/some/file", "leave it out"),
    ] {
        let refused = text(&set(&mut plain, name, value));
        assert!(refused.contains(name) && refused.contains(word), "{name} {value}: {refused}");
        assert!(!text(&plain.call(&["CONFIG", "GET", name])).contains(value));
    }
    assert_eq!(connect(port, &config).server_certificate(), before.server_certificate());
    let both = ["CONFIG", "SET", "tls-cert-file", &certificate, "tls-key-file", &key];
    assert_eq!(plain.call(&both), ok());
    assert_ne!(connect(port, &config).server_certificate(), before.server_certificate());
    assert_eq!(before.call(&["SET", "k", "v"]), ok());
}

#[test]
fn files_that_change_are_loaded_by_themselves_where_that_is_asked_for() {
    let authority = Authority::new();
    let own = authority.issue("localhost", None);
    let arguments = authority.arguments(&own);
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.extend(["--tls-auth-clients", "no", "--tls-auto-reload-interval", "1"]);
    let mut server = Server::start(&arguments);
    let port = open(&mut server.client());
    let config = authority.client_config(None);
    let first = connect(port, &config).server_certificate();
    let other = authority.issue("localhost", None);
    // While only one of two files is there the old ones stay.
    std::fs::copy(&other.certificate, &own.certificate).unwrap();
    server.wait_for_log("is not the key of the certificate");
    assert_eq!(connect(port, &config).server_certificate(), first);
    std::fs::copy(&other.key, &own.key).unwrap();
    eventually("the new certificate is shown", || {
        connect(port, &config).server_certificate() != first
    });
}

#[test]
fn what_cannot_be_is_refused_at_the_start() {
    let authority = Authority::new();
    let own = authority.arguments(&authority.issue("localhost", None));
    let port = free_port().to_string();
    let refused = |more: &[&str]| {
        let own = own.iter().map(String::as_str);
        let all: Vec<&str> =
            own.chain(["--port", "0", "--tls-port", &port]).chain(more.iter().copied()).collect();
        let (status, log) = Server::refuses(&all);
        assert!(!status.success());
        log
    };
    for (name, value, word) in [
        ("--tls-cert-file", "", "tls-cert-file: no file is configured"),
        ("--tls-key-file", "/no/such/file", "tls-key-file: '/no/such/file': No such file"),
        ("--tls-ca-cert-file", "", "name some by tls-ca-cert-file or tls-ca-cert-dir"),
        ("--tls-protocols", "TLSv1", "tls-protocols: TLSv1 is not spoken any more"),
        ("--tls-dh-params-file", "/some/file", "Diffie-Hellman parameters are not used"),
    ] {
        let log = refused(&[name, value]);
        assert!(log.contains(word), "{name} {value}: {log}");
    }
}

#[test]
fn ports_open_close_and_change_places() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let config = authority.client_config(None);
    let mut client = connect(port, &config);
    let mut plain = server.client();
    assert_eq!(set(&mut plain, "tls-port", "0"), ok());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(client.call(&["PING"]), Value::Simple(b"PONG".to_vec()));
    let (own, other) = (server.port().to_string(), port.to_string());
    let swap = ["CONFIG", "SET", "port", &other, "tls-port", &own];
    assert_eq!(client.call(&swap), ok());
    assert!(is_served(server.port(), &config));
    Client::connect(port).call(&["PING"]);
    // A port may change alone, too.
    assert_eq!(client.call(&["CONFIG", "SET", "port", "0"]), ok());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(is_served(server.port(), &config));
    // After a refusal all is as before.
    let refused = ["CONFIG", "SET", "port", &other, "tls-cert-file", "/no/such/file"];
    assert!(text(&client.call(&refused)).contains("No such file"));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert_eq!(client.call(&["CONFIG", "SET", "port", &other, "tls-port", "0"]), ok());
    drop(client);
    let mut plain = Client::connect(port);
    // The harness looks for panics by the port that it knows.
    assert_eq!(set(&mut plain, "port", &own), ok());
}

#[test]
fn sessions_move_between_workers_with_what_is_under_way() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no", "--worker-threads", "3"]);
    let config = authority.client_config(None);
    let mut plain = server.client();
    let mut clients: Vec<Client> = (0..6).map(|_| connect(port, &config)).collect();
    let value = vec![b'v'; 400_000];
    plain.call(&[b"SET", &b"k"[..], &value]);
    for workers in ["1", "2", "1", "3"] {
        for client in &mut clients {
            (0..10).for_each(|_| client.send(&["GET", "k"]));
        }
        assert_eq!(set(&mut plain, "worker-threads", workers), ok());
        for client in &mut clients {
            (0..10).for_each(|_| assert_eq!(client.receive(), Value::Bulk(value.clone())));
        }
    }
}

#[test]
fn redis_cli_is_served_with_a_certificate_and_without() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "optional"]);
    server.client().call(&["ACL", "SETUSER", "alice", "on", "+@all", "~*"]);
    set(&mut server.client(), "tls-auth-clients-user", "CN");
    let alice = authority.issue("alice", None);
    let ca = authority.file();
    let asked = |more: &[&str]| {
        let mut command = Command::new(recorded("redis_cli"));
        command.args(["-p", &port.to_string(), "--tls", "--cacert", ca.to_str().unwrap()]);
        let output = command.args(more).args(["ACL", "WHOAMI"]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(asked(&[]), "default");
    let [certificate, key] = [&alice.certificate, &alice.key].map(|it| it.to_str().unwrap());
    assert_eq!(asked(&["--cert", certificate, "--key", key]), "alice");
    let old = asked(&["--tls-ciphersuites", "TLS_AES_128_GCM_SHA256"]);
    assert_eq!(old, "default");
}

/// H09, H101 and their kin: a client that never ends a handshake holds up no other, and keeps none
/// out.
#[test]
fn h09_handshakes_that_never_end_hold_up_nobody() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no", "--maxclients", "200"]);
    let config = authority.client_config(None);
    let mut before = connect(port, &config);
    let mut plain = server.client();
    let mut half_open = Vec::new();
    for round in 0..500 {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // The beginning of a ClientHello, or nothing.
        if round % 2 == 0 {
            // The server may have closed it for a younger one.
            let _ = socket.write_all(&[0x16, 3, 1, 2, 0, 1]);
        }
        half_open.push(socket);
        if round % 100 == 0 {
            assert_eq!(before.call(&["PING"]), Value::Simple(b"PONG".to_vec()));
        }
    }
    eventually("no more than there is room for are under way", || {
        let under_way = plain.figure("tls_half_open");
        plain.figure("tls_handshakes_displaced") + plain.figure("rejected_connections") >= 300
            && under_way <= 200
    });
    eventually("whoever ends a handshake is served", || is_served(port, &config));
    assert_eq!(plain.call(&["PING"]), Value::Simple(b"PONG".to_vec()));
    drop(half_open);
    eventually("none is left", || plain.figure("tls_half_open") == 0);
}

/// H09: whole messages that each cost a key exchange come faster than these are made. However many
/// wait for theirs, the process has no more descriptors open than clients may have.
#[test]
fn h09_a_flood_of_handshakes_takes_no_more_descriptors_than_clients_may_have() {
    const MAX_CLIENTS: usize = 200;
    let authority = Authority::new();
    let most = MAX_CLIENTS.to_string();
    let (server, port) = authority.start(&["--tls-auth-clients", "no", "--maxclients", &most]);
    let config = authority.client_config(None);
    let mut plain = server.client();
    let name = "localhost".try_into().unwrap();
    let mut hello = Vec::new();
    rustls::ClientConnection::new(Arc::clone(&config), name)
        .unwrap()
        .write_tls(&mut hello)
        .unwrap();
    let descriptors = || std::fs::read_dir(format!("/proc/{}/fd", server.pid())).unwrap().count();
    let before = descriptors();
    let flood = || {
        let knock = |_| {
            let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
            // The server may have closed it already.
            let _ = socket.write_all(&hello);
            socket
        };
        (0..400).map(knock).collect::<Vec<_>>()
    };
    let sockets: Vec<_> = std::thread::scope(|scope| {
        let floods: Vec<_> = (0..8).map(|_| scope.spawn(flood)).collect();
        while floods.iter().any(|flood| !flood.is_finished()) {
            // One may be in the hands of the accepting thread, and of each that closes.
            let open = descriptors();
            assert!(open <= before + MAX_CLIENTS + 8, "{open} are open, {before} before");
        }
        floods.into_iter().map(|flood| flood.join().unwrap()).collect()
    });
    eventually("those beyond are turned away", || {
        plain.figure("tls_handshakes_displaced") + plain.figure("rejected_connections") > 1000
    });
    drop(sockets);
    eventually("whoever ends a handshake is served", || is_served(port, &config));
    eventually("none is left", || plain.figure("tls_half_open") == 0);
}

/// H101: a command ends connections that have more to read.
#[test]
fn h101_connections_with_more_to_read_are_killed() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let config = authority.client_config(None);
    for _ in 0..5 {
        let mut clients: Vec<Client> = (0..20).map(|_| connect(port, &config)).collect();
        let commands = vec![vec!["ECHO", "some words that are echoed"]; 300];
        let bytes: Vec<u8> = commands.iter().flat_map(|it| tests::client::encode(it)).collect();
        for client in &mut clients {
            let _ = client.try_send_raw(&bytes);
            let _ =
                client.try_send_raw(&tests::client::encode(&["CLIENT", "KILL", "SKIPME", "yes"]));
        }
        drop(clients);
        // A late kill may meet whoever asks, too.
        eventually("the server serves", || {
            let client = Client::try_connect(server.port());
            client.is_ok_and(|mut client| client.try_call(&["PING"]).is_ok())
        });
    }
}

#[test]
fn what_is_no_handshake_is_closed_and_counted() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut plain = server.client();
    let garbage: [&[u8]; 6] = [
        b"PING\r\n",
        b"*1\r\n$4\r\nPING\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        // A record that says it is longer than one may be.
        &[0x16, 3, 3, 0xff, 0xff, 1, 0, 0, 0],
        // An alert, and data, before anything was agreed on.
        &[0x15, 3, 3, 0, 2, 2, 40],
        &[0x17, 3, 3, 0, 4, 1, 2, 3, 4],
    ];
    for (done, bytes) in garbage.iter().enumerate() {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        socket.write_all(bytes).unwrap();
        let mut reply = Vec::new();
        // The end may be a reset: bytes of ours are unread.
        let _ = socket.read_to_end(&mut reply);
        assert!(reply.is_empty() || reply[0] == 0x15, "{:?}", reply.escape_ascii().to_string());
        eventually("it is counted", || plain.figure("tls_handshakes_failed") == done as i64 + 1);
    }
    assert!(is_served(port, &authority.client_config(None)));
}

/// Records that are damaged, or too long, end their connection alone.
#[test]
fn a_record_that_is_not_the_peers_ends_its_connection() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let config = authority.client_config(None);
    let mut other = connect(port, &config);
    for record in [
        [&[0x17, 3, 3, 0x40, 0][..], &[7; 0x4000]].concat(),
        [&[0x17, 3, 3, 0xff, 0xff][..], &[7; 0xffff]].concat(),
        [&[0x17, 3, 3, 0, 32][..], &[7; 32]].concat(),
        b"PING\r\n".to_vec(),
    ] {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let name = "localhost".try_into().unwrap();
        let connection = rustls::ClientConnection::new(Arc::clone(&config), name).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, stream);
        stream.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        stream.read_exact(&mut reply).unwrap();
        assert_eq!(&reply, b"+PONG\r\n");
        stream.sock.write_all(&record).unwrap();
        stream.sock.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let ended = stream.read(&mut reply);
        assert!(!matches!(ended, Ok(1..)), "{ended:?}");
        assert_eq!(other.call(&["PING"]), Value::Simple(b"PONG".to_vec()));
    }
    // Their connections end with a word of TLS behind what was read here.
    eventually("all of them are gone", || server.client().figure("connected_clients") == 2);
}

#[test]
fn a_peer_that_sends_a_byte_at_a_time_is_served() {
    let authority = Authority::new();
    let (_server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_nodelay(true).unwrap();
    let name = "localhost".try_into().unwrap();
    let mut connection =
        rustls::ClientConnection::new(authority.client_config(None), name).unwrap();
    let mut reply = Vec::new();
    connection.writer().write_all(b"ECHO abc\r\n").unwrap();
    while reply.len() < 9 {
        let mut bytes = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut bytes).unwrap();
        }
        bytes.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
        connection.read_tls(&mut stream).unwrap();
        connection.process_new_packets().unwrap();
        // The read would block where nothing is there.
        let _ = connection.reader().read_to_end(&mut reply);
    }
    assert_eq!(reply, b"$3\r\nabc\r\n");
}

/// TLS 1.2 lets a client ask for another handshake, which costs the server most.
#[test]
fn another_handshake_in_a_session_is_refused() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "no"]);
    let mut client = Command::new("openssl")
        .args(["s_client", "-tls1_2", "-connect", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut plain = server.client();
    eventually("it is connected", || plain.figure("connected_clients") == 2);
    // A line with this letter alone asks for it; the client ends when it is refused.
    let mut input = client.stdin.take().unwrap();
    input.write_all(b"R\n").unwrap();
    eventually("the client is gone", || plain.figure("connected_clients") == 1);
    drop(input);
    client.wait().unwrap();
    assert_eq!(plain.figure("tls_handshakes_full"), 1);
}
