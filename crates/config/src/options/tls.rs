//! Options: encrypted connections.

use std::sync::Arc;

use super::super::choices::{TlsAuthClients, TlsAuthClientsUser};
use super::super::kind::{Kind, TEXT, integer};
use super::super::option::{ConfigOption, LIVE_OPTION};
use super::super::settings::settings;
use super::super::special;

/// Encrypted connections.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "tls-port",
        kind: integer(0, 65_535),
        default: "0",
        doc: "The TLS port to listen on; 0 listens on none.",
        cost: "A handshake takes 110 to 470 us of CPU on threads of its own, a record of 290 \
        bytes 0.3 us on a worker.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-cert-file",
        kind: TEXT,
        doc: "The server's certificate.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-key-file",
        kind: TEXT,
        doc: "The server's private key.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-key-file-pass",
        kind: TEXT,
        sensitive: true,
        doc: "The private key's password.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-client-cert-file",
        kind: TEXT,
        doc: "The certificate for outgoing connections.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-client-key-file",
        kind: TEXT,
        doc: "The private key for outgoing connections.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-client-key-file-pass",
        kind: TEXT,
        sensitive: true,
        doc: "The password of the private key for outgoing connections.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-dh-params-file",
        kind: special::NO_DH_PARAMETERS,
        doc: "Diffie-Hellman parameters: refused, keys are exchanged by elliptic curves.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-ca-cert-file",
        kind: TEXT,
        doc: "Certificates of the authorities that clients are checked against.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-ca-cert-dir",
        kind: TEXT,
        doc: "A directory of such certificates.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-auth-clients",
        kind: Kind::Choice(TlsAuthClients::WORDS),
        default: "yes",
        doc: "Whether clients must show a certificate.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-auth-clients-user",
        kind: Kind::Choice(TlsAuthClientsUser::WORDS),
        default: "off",
        doc: "Which field of a client's certificate names its user.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-expected-peer-name",
        kind: TEXT,
        doc: "Names that a peer's certificate must carry.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-replication",
        default: "no",
        doc: "Replicates over TLS.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-cluster",
        default: "no",
        doc: "The bus of a cluster, moves of its slots and MIGRATE speak TLS.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-protocols",
        kind: TEXT,
        doc: "The TLS versions to speak.",
        ..LIVE_OPTION
    },
    ConfigOption { name: "tls-ciphers", kind: TEXT, doc: "The ciphers of TLS 1.2.", ..LIVE_OPTION },
    ConfigOption {
        name: "tls-ciphersuites",
        kind: TEXT,
        doc: "The cipher suites of TLS 1.3.",
        ..LIVE_OPTION
    },
    ConfigOption { name: "tls-groups", kind: TEXT, doc: "The key exchange groups.", ..LIVE_OPTION },
    ConfigOption {
        name: "tls-prefer-server-ciphers",
        default: "no",
        doc: "Lets the server choose the cipher.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-session-caching",
        default: "yes",
        doc: "Lets clients resume sessions.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-session-cache-size",
        kind: integer(0, i32::MAX as i64),
        default: "20480",
        doc: "How many sessions may be resumed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-session-cache-timeout",
        kind: integer(0, i32::MAX as i64),
        default: "300",
        doc: "Seconds that a session may be resumed.",
        ..LIVE_OPTION
    },
    ConfigOption {
        name: "tls-auto-reload-interval",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        doc: "Seconds between looks for new certificates; 0 never looks.",
        ..LIVE_OPTION
    },
];

settings! {
    TLS_AUTH_CLIENTS: TlsAuthClients = "tls-auth-clients";
    TLS_AUTH_CLIENTS_USER: TlsAuthClientsUser = "tls-auth-clients-user";
    TLS_AUTO_RELOAD_INTERVAL: u32 = "tls-auto-reload-interval";
    TLS_CA_CERT_DIR: Arc<[u8]> = "tls-ca-cert-dir";
    TLS_CA_CERT_FILE: Arc<[u8]> = "tls-ca-cert-file";
    TLS_CERT_FILE: Arc<[u8]> = "tls-cert-file";
    TLS_CIPHERS: Arc<[u8]> = "tls-ciphers";
    TLS_CIPHERSUITES: Arc<[u8]> = "tls-ciphersuites";
    TLS_CLIENT_CERT_FILE: Arc<[u8]> = "tls-client-cert-file";
    TLS_CLIENT_KEY_FILE: Arc<[u8]> = "tls-client-key-file";
    TLS_CLIENT_KEY_FILE_PASS: Arc<[u8]> = "tls-client-key-file-pass";
    TLS_CLUSTER: bool = "tls-cluster";
    TLS_EXPECTED_PEER_NAME: Arc<[u8]> = "tls-expected-peer-name";
    TLS_GROUPS: Arc<[u8]> = "tls-groups";
    TLS_KEY_FILE: Arc<[u8]> = "tls-key-file";
    TLS_KEY_FILE_PASS: Arc<[u8]> = "tls-key-file-pass";
    TLS_PORT: u16 = "tls-port";
    TLS_PREFER_SERVER_CIPHERS: bool = "tls-prefer-server-ciphers";
    TLS_PROTOCOLS: Arc<[u8]> = "tls-protocols";
    TLS_REPLICATION: bool = "tls-replication";
    TLS_SESSION_CACHE_SIZE: usize = "tls-session-cache-size";
    TLS_SESSION_CACHE_TIMEOUT: u32 = "tls-session-cache-timeout";
    TLS_SESSION_CACHING: bool = "tls-session-caching";
}
