//! `apus bench` over encrypted connections, with our server and a genuine one: what it sends
//! arrives, a server that is not trusted is not measured, and the report tells how it was.
#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

use std::process::Command;

use tests::Oracle;
use tests::environment::binary;
use tests::server::free_port;
use tests::tls::{Authority, Identity};

/// What a run printed, and whether it went well.
fn bench(port: u16, words: &[&str]) -> (String, bool) {
    let mut command = Command::new(binary());
    command.args(["bench", "-t", "1", "-c", "4", "--hide-histogram", "-p", &port.to_string()]);
    let output = command.args(words).output().unwrap();
    let printed = [&output.stdout[..], &output.stderr].concat();
    (String::from_utf8_lossy(&printed).into_owned(), output.status.success())
}

/// The flags of a client that trusts the authority, and shows a certificate.
fn flags(authority: &Authority, own: &Identity) -> Vec<String> {
    let path = |path: &std::path::Path| path.display().to_string();
    let named = [
        ("--cacert", path(&authority.file())),
        ("--cert", path(&own.certificate)),
        ("--key", path(&own.key)),
    ];
    let named = named.into_iter().flat_map(|(name, value)| [name.to_owned(), value]);
    ["--tls".to_owned()].into_iter().chain(named).collect()
}

fn measures_over_tls(authority: &Authority, port: u16) {
    let flags = flags(authority, &authority.issue("bench", None));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    for load in [
        &["-n", "500", "--pipeline", "16"][..],
        &["-n", "20", "-d", "100000", "--ratio", "1:1", "--key-maximum", "3", "--pipeline", "8"],
        &["-n", "40", "--reconnect-interval", "4"],
        &["-n", "100", "--tls-protocols", "TLSv1.2"],
        &["-n", "100", "--tls-protocols", "TLSv1.2,TLSv1.3", "--sni", "localhost"],
        &[
            "-n",
            "allkeys",
            "--ratio",
            "1:0",
            "--key-pattern",
            "P:P",
            "--key-maximum",
            "300",
            "--data-verify",
        ],
    ] {
        let (printed, went_well) = bench(port, &[&flags, load].concat());
        assert!(went_well && printed.contains("Totals"), "{load:?}: {printed}");
    }
    let uri = format!("rediss://127.0.0.1:{port}");
    let (printed, went_well) = bench(port, &[&["-u", &uri, "-n", "10"], &flags[1..]].concat());
    assert!(went_well, "{printed}");
    // A client that shows no certificate is sent away. A server that cannot be proven is left.
    let (printed, went_well) = bench(port, &["--tls", flags[1], flags[2], "-n", "10"]);
    assert!(!went_well, "{printed}");
    let (printed, went_well) = bench(port, &[&["--tls", "-n", "10"], &flags[3..]].concat());
    assert!(!went_well && printed.contains("certificate"), "{printed}");
    let trusting = [&["--tls", "--tls-skip-verify", "-n", "10"], &flags[3..]].concat();
    let (printed, went_well) = bench(port, &trusting);
    assert!(went_well, "{printed}");
}

#[test]
fn our_server_is_measured() {
    let authority = Authority::new();
    let (server, port) = authority.start(&["--tls-auth-clients", "yes"]);
    measures_over_tls(&authority, port);
    assert!(server.client().figure("tls_handshakes_full") > 40, "each connection has its own");
    let (printed, went_well) = bench(server.port(), &["--tls", "--tls-skip-verify", "-n", "1"]);
    assert!(!went_well, "a port that is not encrypted: {printed}");
    let (printed, went_well) = bench(port, &["--tls", "--cacert", "/none", "-n", "1"]);
    assert!(!went_well && printed.contains("--cacert"), "{printed}");
}

#[test]
fn a_genuine_server_is_measured() {
    let authority = Authority::new();
    let port = free_port();
    let mut arguments = authority.arguments(&authority.issue("localhost", None));
    arguments.extend(["--tls-port".to_owned(), port.to_string()]);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let _server = Oracle::Redis70.start(&arguments);
    measures_over_tls(&authority, port);
}
