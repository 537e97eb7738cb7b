//! Options: encrypted connections.

use super::super::kind::{Kind, TEXT, integer};
use super::super::option::{ConfigOption, Effect, MISSING, NOT_YET};

/// Encrypted connections.
pub(super) const OPTIONS: &[ConfigOption] = &[
    ConfigOption {
        name: "tls-port",
        kind: integer(0, 65_535),
        default: "0",
        effect: Effect::Tls,
        doc: "The TLS port to listen on; 0 listens on none.",
        ..MISSING
    },
    ConfigOption {
        name: "tls-cert-file",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The server's certificate.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-key-file",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The server's private key.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-key-file-pass",
        kind: TEXT,
        sensitive: true,
        effect: Effect::Tls,
        doc: "The private key's password.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-client-cert-file",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The certificate for outgoing connections.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-client-key-file",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The private key for outgoing connections.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-client-key-file-pass",
        kind: TEXT,
        sensitive: true,
        effect: Effect::Tls,
        doc: "The password of the private key for outgoing connections.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-dh-params-file",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "Diffie-Hellman parameters.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-ca-cert-file",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "Certificates of the authorities that clients are checked against.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-ca-cert-dir",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "A directory of such certificates.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-auth-clients",
        kind: Kind::Choice(&["no", "yes", "optional"]),
        default: "yes",
        effect: Effect::Tls,
        doc: "Whether clients must show a certificate.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-auth-clients-user",
        kind: Kind::Choice(&["CN", "URI", "off"]),
        default: "off",
        effect: Effect::Tls,
        doc: "Which field of a client's certificate names its user.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-expected-peer-name",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "Names that a peer's certificate must carry.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-replication",
        default: "no",
        effect: Effect::Tls,
        doc: "Replicates over TLS.",
        ..MISSING
    },
    ConfigOption {
        name: "tls-cluster",
        default: "no",
        effect: Effect::Tls,
        doc: "Encrypts the cluster bus.",
        ..MISSING
    },
    ConfigOption {
        name: "tls-protocols",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The TLS versions to speak.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-ciphers",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The ciphers of TLS 1.2.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-ciphersuites",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The cipher suites of TLS 1.3.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-groups",
        kind: TEXT,
        effect: Effect::Tls,
        doc: "The key exchange groups.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-prefer-server-ciphers",
        default: "no",
        effect: Effect::Tls,
        doc: "Lets the server choose the cipher.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-session-caching",
        default: "yes",
        effect: Effect::Tls,
        doc: "Lets clients resume sessions.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-session-cache-size",
        kind: integer(0, i32::MAX as i64),
        default: "20480",
        effect: Effect::Tls,
        doc: "How many sessions may be resumed.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-session-cache-timeout",
        kind: integer(0, i32::MAX as i64),
        default: "300",
        effect: Effect::Tls,
        doc: "Seconds that a session may be resumed.",
        ..NOT_YET
    },
    ConfigOption {
        name: "tls-auto-reload-interval",
        kind: integer(0, i32::MAX as i64),
        default: "0",
        effect: Effect::Tls,
        doc: "Seconds between looks for new certificates; 0 never looks.",
        ..NOT_YET
    },
];
