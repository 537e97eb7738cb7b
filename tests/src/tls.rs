//! Certificates for tests, made by an authority of the test's own, and servers that show them.
//!
//! Invariant: keys are made anew for each test and lie in a folder that goes with it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use proto::value::Value;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};
use tempfile::TempDir;

use crate::client::Client;
use crate::server::{Server, free_port};

/// The authority that signs the certificates of a test.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    folder: TempDir,
}

/// A certificate with its key.
pub struct Identity {
    /// The file of the certificate.
    pub certificate: PathBuf,
    /// The file of the key.
    pub key: PathBuf,
}

impl Authority {
    /// A new one.
    #[expect(clippy::new_without_default, reason = "each is another")]
    pub fn new() -> Self {
        let key = KeyPair::generate().expect("keys can be made");
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = named("An authority of tests");
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let certificate = params.self_signed(&key).expect("a certificate can be made");
        write(&folder.path().join("ca.crt"), &certificate.pem());
        Self { issuer: Issuer::new(params, key), folder }
    }

    /// Where files may be put.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The file of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// A certificate for `localhost` whose common name is this, and that names a URI.
    pub fn issue(&self, common_name: &str, uri: Option<&str>) -> Identity {
        let key = KeyPair::generate().expect("keys can be made");
        let mut params = CertificateParams::new(vec!["localhost".into(), "127.0.0.1".into()])
            .expect("these are names");
        params.distinguished_name = named(common_name);
        let uri = uri.map(|uri| SanType::URI(uri.try_into().expect("a URI")));
        params.subject_alt_names.extend(uri);
        let certificate = params.signed_by(&key, &self.issuer).expect("it can be signed");
        let number = std::fs::read_dir(self.folder()).expect("it is there").count();
        let file = |end: &str| self.folder.path().join(format!("{number}.{end}"));
        let identity = Identity { certificate: file("crt"), key: file("key") };
        write(&identity.certificate, &certificate.pem());
        write(&identity.key, &key.serialize_pem());
        identity
    }

    /// What a client begins with that trusts this authority, and shows a certificate or not.
    pub fn client_config(&self, own: Option<&Identity>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        let file = CertificateDer::from_pem_file(self.file()).expect("it was written");
        roots.add(file).expect("it is one of an authority");
        let builder = ClientConfig::builder().with_root_certificates(roots);
        Arc::new(match own {
            None => builder.with_no_client_auth(),
            Some(own) => {
                let chain = CertificateDer::from_pem_file(&own.certificate).expect("it is there");
                let key = PrivateKeyDer::from_pem_file(&own.key).expect("it is there");
                builder.with_client_auth_cert(vec![chain], key).expect("they belong together")
            }
        })
    }

    /// The arguments of a server that shows a certificate.
    pub fn arguments(&self, own: &Identity) -> Vec<String> {
        let path = |path: &Path| path.display().to_string();
        [
            ("--tls-cert-file", path(&own.certificate)),
            ("--tls-key-file", path(&own.key)),
            ("--tls-ca-cert-file", path(&self.file())),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect()
    }

    /// Starts Apus, with a plain port beside an encrypted one, which is returned.
    pub fn start(&self, arguments: &[&str]) -> (Server, u16) {
        let own = self.arguments(&self.issue("localhost", None));
        let own = own.iter().map(String::as_str);
        let all: Vec<&str> = own.chain(arguments.iter().copied()).collect();
        let server = Server::start(&all);
        let port = open(&mut server.client());
        (server, port)
    }
}

/// Has a server open an encrypted port.
pub fn open(client: &mut Client) -> u16 {
    for _ in 0..5 {
        let port = free_port();
        if client.call(&["CONFIG", "SET", "tls-port", &port.to_string()])
            == Value::Simple(b"OK".to_vec())
        {
            return port;
        }
    }
    panic!("no free port stays free")
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).expect("the folder can be written to");
}
