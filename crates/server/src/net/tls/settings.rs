//! The directives of encrypted connections, as the crate that makes them takes them.
//!
//! Invariant: an empty value names nothing.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use config::settings::{
    HTTP_TLS_PORT, MEMCACHED_PORT, MEMCACHED_TLS, TLS_AUTH_CLIENTS, TLS_CA_CERT_DIR,
    TLS_CA_CERT_FILE, TLS_CERT_FILE, TLS_CIPHERS, TLS_CIPHERSUITES, TLS_CLIENT_CERT_FILE,
    TLS_CLIENT_KEY_FILE, TLS_CLIENT_KEY_FILE_PASS, TLS_CLUSTER, TLS_EXPECTED_PEER_NAME, TLS_GROUPS,
    TLS_KEY_FILE, TLS_KEY_FILE_PASS, TLS_PORT, TLS_PREFER_SERVER_CIPHERS, TLS_PROTOCOLS,
    TLS_REPLICATION, TLS_SESSION_CACHE_SIZE, TLS_SESSION_CACHE_TIMEOUT, TLS_SESSION_CACHING,
};
use config::{Config, TlsAuthClients};
use tls::Settings;
use tls::contexts::{ClientAuthentication, IdentityFiles, Policy};

/// Whether anything is to be encrypted.
pub(crate) fn is_wanted(config: &Config) -> bool {
    let of_memcached = config.get(MEMCACHED_TLS) && config.get(MEMCACHED_PORT) != 0;
    let has_port = config.get(TLS_PORT) != 0 || config.get(HTTP_TLS_PORT) != 0;
    of_memcached || has_port || config.get(TLS_REPLICATION) || config.get(TLS_CLUSTER)
}

/// What the directives say.
pub(crate) fn settings_of(config: &Config) -> Settings {
    Settings {
        identity: IdentityFiles {
            certificate: path(&config.get(TLS_CERT_FILE)),
            key: path(&config.get(TLS_KEY_FILE)),
            password: config.get(TLS_KEY_FILE_PASS).to_vec(),
        },
        client_identity: IdentityFiles {
            certificate: path(&config.get(TLS_CLIENT_CERT_FILE)),
            key: path(&config.get(TLS_CLIENT_KEY_FILE)),
            password: config.get(TLS_CLIENT_KEY_FILE_PASS).to_vec(),
        },
        ca_file: path(&config.get(TLS_CA_CERT_FILE)),
        ca_folder: path(&config.get(TLS_CA_CERT_DIR)),
        client_authentication: match config.get(TLS_AUTH_CLIENTS) {
            TlsAuthClients::No => ClientAuthentication::No,
            TlsAuthClients::Yes => ClientAuthentication::Yes,
            TlsAuthClients::Optional => ClientAuthentication::Optional,
        },
        policy: Policy {
            protocols: text(&config.get(TLS_PROTOCOLS)),
            ciphers: text(&config.get(TLS_CIPHERS)),
            ciphersuites: text(&config.get(TLS_CIPHERSUITES)),
            groups: text(&config.get(TLS_GROUPS)),
            prefers_own: config.get(TLS_PREFER_SERVER_CIPHERS),
        },
        caching: config
            .get(TLS_SESSION_CACHING)
            .then(|| (config.get(TLS_SESSION_CACHE_SIZE), config.get(TLS_SESSION_CACHE_TIMEOUT))),
        expected_names: text(&config.get(TLS_EXPECTED_PEER_NAME))
            .split_ascii_whitespace()
            .map(str::to_owned)
            .collect(),
    }
}

fn path(value: &Arc<[u8]>) -> Option<PathBuf> {
    (!value.is_empty()).then(|| PathBuf::from(OsStr::from_bytes(value)))
}

fn text(value: &Arc<[u8]>) -> String {
    String::from_utf8_lossy(value).into_owned()
}
