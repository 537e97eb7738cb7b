//! Encrypted links between servers, ours and genuine ones: replicas, primaries, Sentinels; clients
//! of memcached, and client libraries.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::process::Command;

use proto::value::Value;
use tests::environment::{recorded, repository};
use tests::render::render;
use tests::replication::has_all;
use tests::server::{eventually, free_port};
use tests::tls::{Authority, open};
use tests::{Client, Oracle, Server};

/// A server of each kind with an encrypted port, whose links are encrypted, too.
fn start(authority: &Authority, genuine: bool) -> (Server, u16) {
    let own = authority.arguments(&authority.issue("localhost", None));
    let mut arguments: Vec<&str> = own.iter().map(String::as_str).collect();
    arguments.extend(["--tls-replication", "yes"]);
    let port = free_port().to_string();
    if genuine {
        arguments.extend(["--tls-port", &port]);
        return (Oracle::Redis70.start(&arguments), port.parse().unwrap());
    }
    let server = Server::start(&arguments);
    let port = open(&mut server.client());
    (server, port)
}

fn follow(replica: &Server, port: u16) -> Value {
    replica.client().call(&["REPLICAOF", "127.0.0.1", &port.to_string()])
}

/// Full syncs, streams and their loss, encrypted, with Redis 7.0 on either side and on none.
#[test]
fn replicas_and_primaries_speak_tls_with_each_other() {
    let authority = Authority::new();
    for (genuine_primary, genuine_replica) in [(false, false), (true, false), (false, true)] {
        let (primary, port) = start(&authority, genuine_primary);
        let (replica, replica_port) = start(&authority, genuine_replica);
        let mut upstream = primary.client();
        let value = "v".repeat(100_000);
        for number in 0..50 {
            upstream.call(&["SET", &format!("before{number}"), &value]);
        }
        assert_eq!(follow(&replica, port), Value::Simple(b"OK".to_vec()));
        let mut downstream = replica.client();
        let is_up = |client: &mut Client| client.info("master_link_status") == "up";
        eventually("the replica is in step", || is_up(&mut downstream));
        for number in 0..2000 {
            upstream.call(&["SET", &format!("behind{number}"), "x"]);
        }
        eventually("the stream is there", || has_all(&mut upstream, &mut downstream));
        assert_eq!(downstream.call(&["DBSIZE"]), Value::Integer(2050));
        // The primary is told the port by which others come.
        let told = upstream.info("slave0");
        assert!(told.contains(&format!("port={replica_port},")), "{told}");
        let links = upstream.call(&["CLIENT", "LIST", "TYPE", "replica"]);
        let links = String::from_utf8_lossy(links.as_bytes().unwrap()).into_owned();
        assert!(genuine_primary || links.contains("tls=TLSv1."), "{links}");
        upstream.call(&["CLIENT", "KILL", "TYPE", "replica"]);
        upstream.call(&["SET", "last", "1"]);
        eventually("it is there again", || {
            downstream.call(&["GET", "last"]) == Value::Bulk(b"1".to_vec())
        });
    }
}

/// `tls-cluster` decides how MIGRATE speaks to its target, as in Redis; both ways between ours and
/// Redis 7.0, with a user that logs in.
#[test]
fn keys_go_by_tls_where_servers_of_a_cluster_speak_it() {
    const PATIENTLY: &str = "20000";
    // What fails in any case fails by the end of the connection, or by this.
    const SHORTLY: &str = "500";
    let authority = Authority::new();
    for (genuine_source, genuine_target) in [(false, false), (true, false), (false, true)] {
        let (source, _) = start(&authority, genuine_source);
        let (target, port) = start(&authority, genuine_target);
        let (secret, plain) = (port.to_string(), target.port().to_string());
        let mut client = source.client();
        let mut arrived = target.client();
        arrived.call(&["ACL", "SETUSER", "mover", "on", ">pw", "~*", "+restore", "+select"]);
        let mut set = |on: &str| client.call(&["CONFIG", "SET", "tls-cluster", on]);
        assert_eq!(set("yes"), Value::Simple(b"OK".to_vec()));
        let big = "v".repeat(3_000_000);
        client.call(&["MSET", "a", "1", "b", &big, "c", "3", "d", "4"]);
        let migrate = |client: &mut Client, port: &str, key: &str, timeout: &str| {
            let login = ["AUTH2", "mover", "pw"];
            let order = [&["MIGRATE", "127.0.0.1", port, key, "0", timeout], &login[..]];
            render(&client.call(&order.concat()))
        };
        for key in ["a", "b", "c"] {
            assert_eq!(migrate(&mut client, &secret, key, PATIENTLY), "OK", "{key}");
            assert_eq!(client.call(&["EXISTS", key]), Value::Integer(0));
        }
        assert_eq!(arrived.call(&["GET", "b"]), Value::Bulk(big.into_bytes()));
        // The other way does not do, in either direction; the key stays.
        let fails = migrate(&mut client, &plain, "d", SHORTLY);
        assert!(fails.starts_with("(error) IOERR error or timeout"), "{fails}");
        client.call(&["CONFIG", "SET", "tls-cluster", "no"]);
        // Redis goes on with a connection of the last ten seconds, whatever was said since.
        if !genuine_source {
            let fails = migrate(&mut client, &secret, "d", SHORTLY);
            assert!(fails.starts_with("(error) IOERR error or timeout"), "{fails}");
        }
        assert_eq!(migrate(&mut client, &plain, "d", PATIENTLY), "OK");
        assert_eq!(arrived.call(&["DBSIZE"]), Value::Integer(4));
    }
}

#[test]
fn a_replica_without_a_trusted_certificate_gets_nothing() {
    let authority = Authority::new();
    let (primary, port) = start(&authority, false);
    let (stranger, _) = start(&Authority::new(), false);
    follow(&stranger, port);
    let mut upstream = primary.client();
    eventually("it has tried", || upstream.figure("tls_handshakes_failed") > 1);
    assert_eq!(stranger.client().info("master_link_status"), "down");
    // Nor does one that speaks plainly.
    let plain = Server::start(&[]);
    let failed = upstream.figure("tls_handshakes_failed");
    follow(&plain, port);
    eventually("it has tried", || upstream.figure("tls_handshakes_failed") > failed + 1);
    assert_eq!(plain.client().info("master_link_status"), "down");
    assert_eq!(upstream.info("connected_slaves"), "0");
}

/// The file that a Sentinel begins with, for an encrypted world.
fn sentinel_lines(authority: &Authority, port: u16, own: u16) -> String {
    let files = authority.arguments(&authority.issue("localhost", None));
    let files: String = files
        .chunks(2)
        .map(|pair| format!("{} {}\n", pair[0].trim_start_matches("--"), pair[1]))
        .collect();
    format!(
        "port 0\ntls-port {own}\ntls-replication yes\n{files}\
         sentinel monitor mymaster 127.0.0.1 {port} 1\n\
         sentinel down-after-milliseconds mymaster 1000\n"
    )
}

/// Sentinels of both kinds find the replica and each other by TLS alone.
#[test]
fn sentinels_watch_over_encrypted_servers() {
    let authority = Authority::new();
    let (primary, port) = start(&authority, false);
    let (replica, replica_port) = start(&authority, true);
    follow(&replica, port);
    let mut downstream = replica.client();
    eventually("the replica is in step", || downstream.info("master_link_status") == "up");
    let mut processes = Vec::new();
    let mut ports = Vec::new();
    for genuine in [false, true] {
        let own = free_port();
        let folder = authority.folder().join(format!("sentinel-{genuine}"));
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("sentinel.conf");
        std::fs::write(&file, sentinel_lines(&authority, port, own)).unwrap();
        let program =
            if genuine { Oracle::Redis70.program() } else { tests::environment::binary() };
        let mut command = Command::new(program);
        command.arg(&file).arg("--sentinel").current_dir(&folder);
        let log = std::fs::File::create(folder.join("log")).unwrap();
        processes.push(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        ports.push(own);
    }
    let config = authority.client_config(Some(&authority.issue("client", None)));
    for own in ports {
        let mut client = None;
        eventually("the Sentinel listens", || {
            client = Client::try_connect_tls(own, &config).ok();
            client.is_some()
        });
        let mut client = client.unwrap();
        let expected = format!("address=127.0.0.1:{port},slaves=1,sentinels=2");
        eventually("it has met them all", || client.info("master0").contains(&expected));
        let replicas = tests::render::render(&client.call(&["SENTINEL", "REPLICAS", "mymaster"]));
        assert!(replicas.contains(&replica_port.to_string()), "{replicas}");
    }
    for mut process in processes {
        process.kill().unwrap();
        process.wait().unwrap();
    }
    drop((primary, replica));
}

/// `-Z` of memcached's command line, with a client library and mutual TLS.
#[test]
fn clients_of_memcached_speak_tls() {
    let authority = Authority::new();
    let own = authority.issue("localhost", None);
    let path = |path: &std::path::Path| path.display().to_string();
    let extended = format!(
        "ssl_chain_cert={},ssl_key={},ssl_ca_cert={},ssl_verify_mode=2",
        path(&own.certificate),
        path(&own.key),
        path(&authority.file())
    );
    let port = free_port().to_string();
    let mut server = Command::new(tests::environment::binary())
        .args(["memcached", "-Z", "-o", &extended, "-l", "127.0.0.1", "-p", &port])
        .current_dir(authority.folder())
        .spawn()
        .unwrap();
    let client = authority.issue("client", None);
    let script = format!(
        "import ssl, sys, time\n\
         from pymemcache.client.base import Client\n\
         context = ssl.create_default_context(cafile={:?})\n\
         context.load_cert_chain({:?}, {:?})\n\
         for _ in range(500):\n    \
             try:\n        \
                 client = Client(('localhost', {port}), tls_context=context)\n        \
                 client.set('k', 'v' * 100000, noreply=False)\n        \
                 break\n    \
             except ConnectionRefusedError:\n        \
                 time.sleep(0.05)\n\
         assert client.get('k') == b'v' * 100000\n\
         assert client.raw_command('refresh_certs') == b'OK'\n\
         general, settings = client.stats(), client.stats('settings')\n\
         errors = int(general[b'ssl_handshake_errors'])\n\
         assert int(general[b'time_since_server_cert_refresh']) >= 0\n\
         assert settings[b'ssl_enabled'] == b'yes' and settings[b'ssl_verify_mode'] == 2\n\
         assert settings[b'ssl_chain_cert'].decode() == {:?}\n\
         assert settings[b'ssl_min_version'] == b'tlsv1.2', settings\n\
         bare = ssl.create_default_context(cafile={:?})\n\
         try:\n    \
             Client(('localhost', {port}), tls_context=bare).get('k')\n    \
             sys.exit('served without a certificate')\n\
         except (ssl.SSLError, ConnectionError, OSError, Exception) as error:\n    \
             print(type(error))\n\
         for _ in range(500):\n    \
             if int(client.stats()[b'ssl_handshake_errors']) > errors:\n        \
                 break\n    \
             time.sleep(0.05)\n\
         else:\n    \
             sys.exit('a failed handshake is not told')\n",
        path(&authority.file()),
        path(&client.certificate),
        path(&client.key),
        path(&own.certificate),
        path(&authority.file())
    );
    let output = Command::new(recorded("python")).args(["-c", &script]).output().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(output.status.success(), "{output:?}");
}

/// Client libraries, with certificates of their own.
#[test]
fn client_libraries_speak_tls_both_ways_proven() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients-user", "CN"]);
    server.client().call(&["ACL", "SETUSER", "alice", "on", "+@all", "~*", "&*"]);
    let alice = authority.issue("alice", None);
    let files =
        [&authority.file(), &alice.certificate, &alice.key].map(|it| it.display().to_string());
    let [ca, certificate, key] = &files;
    let python = format!(
        "import redis\n\
         r = redis.Redis(port={port}, ssl=True, ssl_ca_certs={ca:?}, ssl_certfile={certificate:?}, \
         ssl_keyfile={key:?}, host='localhost')\n\
         assert r.acl_whoami() == 'alice'\n\
         p = r.pipeline(transaction=True)\n\
         for i in range(1000): p.set(f'k{{i}}', 'v' * i)\n\
         assert all(p.execute())\n\
         assert r.get('k999') == b'v' * 999\n"
    );
    let output = Command::new(recorded("python")).args(["-c", &python]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let node = format!(
        "const Redis = require('ioredis');\n\
         const fs = require('fs');\n\
         const ca = fs.readFileSync({ca:?});\n\
         const r = new Redis({{ host: 'localhost', port: {port}, tls: {{ ca, \
         cert: fs.readFileSync({certificate:?}), key: fs.readFileSync({key:?}) }} }});\n\
         (async () => {{\n\
         if (await r.acl('WHOAMI') !== 'alice') process.exit(3);\n\
         await r.set('n', 'v'.repeat(300000));\n\
         if ((await r.get('n')).length !== 300000) process.exit(4);\n\
         await r.quit();\n\
         }})().catch((error) => {{ console.error(error); process.exit(5); }});\n"
    );
    let output = Command::new(recorded("node"))
        .args(["-e", &node])
        .env("NODE_PATH", recorded("npm").join("node_modules"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let port = port.to_string();
    let arguments = [&*port, ca, certificate, key, "alice"];
    let session = recorded("go_session");
    let output = Command::new(session).arg("encrypted").args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let libraries = recorded("java_libraries").join("*");
    let java = repository().join("tests/clients/maven/Encrypted.java");
    let mut jedis = Command::new(recorded("java"));
    let output = jedis.arg("-cp").arg(libraries).arg(java).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}
