//! What new sessions begin with: certificates, keys, authorities and what is spoken, read from the
//! files that the operator names and checked as a whole.
//!
//! Invariant: a context is never half made. What is wrong is said by the name of the directive, and
//! what there was before goes on.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use base::time::Clock;
use rustls::client::Resumption;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion};

use crate::certificate::Certificate;
use crate::files::{self, Authorities};
pub use crate::policy::Policy;
use crate::private_key;
use crate::session_cache::SessionCache;
use crate::verifiers::{ClientVerifier, PeerCheck, ServerVerifier};

/// What the operator says.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// `tls-cert-file`, `tls-key-file`, `tls-key-file-pass`.
    pub identity: IdentityFiles,
    /// The same for outgoing connections; the server's where it is empty.
    pub client_identity: IdentityFiles,
    /// `tls-ca-cert-file`.
    pub ca_file: Option<PathBuf>,
    /// `tls-ca-cert-dir`.
    pub ca_folder: Option<PathBuf>,
    /// `tls-auth-clients`.
    pub client_authentication: ClientAuthentication,
    /// What is spoken.
    pub policy: Policy,
    /// How many sessions clients may resume, and for how many seconds; none at all.
    pub caching: Option<(usize, u32)>,
    /// `tls-expected-peer-name`: names that a server's certificate must carry one of.
    pub expected_names: Vec<String>,
}

/// Where a certificate and its key lie.
#[derive(Clone, Debug, Default)]
pub struct IdentityFiles {
    /// The certificate, with those of its chain behind it.
    pub certificate: Option<PathBuf>,
    /// The private key.
    pub key: Option<PathBuf>,
    /// The password of the key; empty if it has none.
    pub password: Vec<u8>,
}

/// Whether clients must show a certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuthentication {
    /// None is asked for.
    #[default]
    No,
    /// One that is shown must be trusted.
    Optional,
    /// One must be shown, and trusted.
    Yes,
}

/// Why something is refused: the directive's name, and the rest of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The directive.
    pub directive: &'static str,
    /// What is wrong with it.
    pub why: String,
}

/// What new sessions begin with.
#[derive(Debug)]
pub struct Contexts {
    /// For clients that come.
    pub server: Arc<ServerConfig>,
    /// For other nodes of a cluster that come: they must show a certificate whatever clients must.
    /// None without authorities that it could be of.
    pub bus: Option<Arc<ServerConfig>>,
    /// For connections that are made.
    pub client: Arc<ClientConfig>,
    /// The certificate that is shown to clients.
    pub certificate: Certificate,
    /// The one that is shown to servers.
    pub client_certificate: Certificate,
    /// Of the authorities' the one that ends first.
    pub authority: Option<Certificate>,
    /// What the files were like before they were read.
    pub state_of_files: FileState,
}

/// What the files of some settings are like: when each was changed, and how long it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileState(Vec<Option<(SystemTime, u64)>>);

impl Settings {
    /// What the files are like now.
    pub fn state_of_files(&self) -> FileState {
        let identities = [&self.identity, &self.client_identity];
        let mut paths: Vec<PathBuf> = identities
            .iter()
            .flat_map(|it| [&it.certificate, &it.key])
            .chain([&self.ca_file, &self.ca_folder])
            .flatten()
            .cloned()
            .collect();
        let inside = self.ca_folder.as_deref().and_then(|folder| std::fs::read_dir(folder).ok());
        paths.extend(inside.into_iter().flatten().flatten().map(|entry| entry.path()));
        let state = |path: &PathBuf| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        FileState(paths.iter().map(state).collect())
    }
}

/// The names of an identity's directives.
struct IdentityDirectives {
    certificate: &'static str,
    key: &'static str,
}

const OF_SERVER: IdentityDirectives =
    IdentityDirectives { certificate: "tls-cert-file", key: "tls-key-file" };
const OF_CLIENT: IdentityDirectives =
    IdentityDirectives { certificate: "tls-client-cert-file", key: "tls-client-key-file" };

/// What all contexts share: algorithms, versions of the protocol, the clock.
struct Common {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    clock: Clock,
}

impl Refusal {
    pub(crate) fn new(directive: &'static str, why: impl Into<String>) -> Self {
        Self { directive, why: why.into() }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.directive, self.why)
    }
}

impl Contexts {
    /// Reads and checks all that the settings name.
    pub fn build(settings: &Settings, clock: &Clock) -> Result<Self, Refusal> {
        let state_of_files = settings.state_of_files();
        let provider = Arc::new(settings.policy.provider()?);
        let versions = settings.policy.versions()?;
        let common = Common { provider, versions, clock: clock.clone() };
        let own = common.identity(&settings.identity, &OF_SERVER)?;
        let client_own = match &settings.client_identity {
            IdentityFiles { certificate: None, key: None, .. } => own.clone(),
            files => common.identity(files, &OF_CLIENT)?,
        };
        let authorities = authorities(settings)?.map(Arc::new);
        if authorities.is_none() && settings.client_authentication != ClientAuthentication::No {
            let why = "clients cannot be asked for certificates without authorities: name some \
                       by tls-ca-cert-file or tls-ca-cert-dir, or set tls-auth-clients to no";
            return Err(Refusal::new("tls-ca-cert-file", why));
        }
        let known = authorities.iter().flat_map(|all| &all.certificates);
        let authority = known.filter_map(|it| Certificate::read(it)).min_by_key(|it| it.not_after);
        let of_bus =
            Settings { client_authentication: ClientAuthentication::Yes, ..settings.clone() };
        let bus = authorities.clone().map(|all| common.server(&of_bus, own.clone(), Some(all)));
        Ok(Self {
            bus: bus.transpose()?.map(Arc::new),
            certificate: fields(&own)?,
            client_certificate: fields(&client_own)?,
            authority,
            state_of_files,
            server: Arc::new(common.server(settings, own, authorities.clone())?),
            client: Arc::new(common.client(
                settings,
                Some(client_own),
                authorities,
                PeerCheck::Trust,
            )?),
        })
    }
}

/// What a client begins with that is no server: without a certificate it shows none, without
/// authorities it knows none, and where `trusts_all` it needs none.
pub fn client_context(
    settings: &Settings,
    clock: &Clock,
    trusts_all: bool,
) -> Result<Arc<ClientConfig>, Refusal> {
    let provider = Arc::new(settings.policy.provider()?);
    let versions = settings.policy.versions()?;
    let common = Common { provider, versions, clock: clock.clone() };
    let own = match &settings.identity {
        IdentityFiles { certificate: None, key: None, .. } => None,
        files => Some(common.identity(files, &OF_SERVER)?),
    };
    let authorities = authorities(settings)?.map(Arc::new);
    let check = if trusts_all { PeerCheck::Nothing } else { PeerCheck::Trust };
    common.client(settings, own, authorities, check).map(Arc::new)
}

/// What connections begin with to servers that are no servers of data: their certificates must be
/// of the host that was meant.
#[derive(Clone, Debug)]
pub struct NamedContext(pub(crate) Arc<ClientConfig>);

impl NamedContext {
    /// Reads and checks what the settings name for it: the authorities, and the certificate that is
    /// shown, if there is one.
    pub fn build(settings: &Settings, clock: &Clock) -> Result<Self, Refusal> {
        // What is expected of servers of data is not what others are called.
        let settings = &Settings { expected_names: Vec::new(), ..settings.clone() };
        let provider = Arc::new(settings.policy.provider()?);
        let versions = settings.policy.versions()?;
        let common = Common { provider, versions, clock: clock.clone() };
        let is_none = |files: &IdentityFiles| files.certificate.is_none() && files.key.is_none();
        let own = match (&settings.client_identity, &settings.identity) {
            (client, server) if is_none(client) && is_none(server) => None,
            (client, server) if is_none(client) => Some(common.identity(server, &OF_SERVER)?),
            (client, _) => Some(common.identity(client, &OF_CLIENT)?),
        };
        let Some(authorities) = authorities(settings)? else {
            let why = "https wants authorities: name some by tls-ca-cert-file or tls-ca-cert-dir";
            return Err(Refusal::new("tls-ca-cert-file", why));
        };
        let check = PeerCheck::TrustAndName;
        common.client(settings, own, Some(Arc::new(authorities)), check).map(Arc::new).map(Self)
    }
}

impl Common {
    fn identity(
        &self,
        files: &IdentityFiles,
        names: &IdentityDirectives,
    ) -> Result<Arc<CertifiedKey>, Refusal> {
        let named = |path: &Option<PathBuf>, name| {
            path.clone().ok_or_else(|| Refusal::new(name, "no file is configured"))
        };
        let certificate = named(&files.certificate, names.certificate)?;
        let key = named(&files.key, names.key)?;
        let chain = files::certificates(&certificate);
        let chain = chain.map_err(|why| Refusal::new(names.certificate, why))?;
        let place = |path: &Path, why: &str| format!("'{}' {why}", path.display());
        let Some(first) = Certificate::read(&chain[0]) else {
            let why = place(&certificate, "holds no certificate that can be read");
            return Err(Refusal::new(names.certificate, why));
        };
        let now = self.clock.now_ms() / 1000;
        if now > first.not_after || now < first.not_before {
            let why = if now > first.not_after { "has expired" } else { "does not hold yet" };
            return Err(Refusal::new(names.certificate, place(&certificate, why)));
        }
        let secret = private_key::read(&key, &files.password);
        let secret = secret.map_err(|why| Refusal::new(names.key, why))?;
        let signer = self.provider.key_provider.load_private_key(secret);
        let signer = signer.map_err(|_| {
            let why = "is no key that is known here: RSA of 2048 bits or more, P-256, P-384, \
                       P-521 or Ed25519";
            Refusal::new(names.key, place(&key, why))
        })?;
        if signer.public_key().is_some_and(|public| public.as_ref() != first.public_key) {
            let why = format!("is not the key of the certificate '{}'", certificate.display());
            return Err(Refusal::new(names.key, place(&key, &why)));
        }
        Ok(Arc::new(CertifiedKey::new(chain, signer)))
    }

    fn server(
        &self,
        settings: &Settings,
        own: Arc<CertifiedKey>,
        authorities: Option<Arc<Authorities>>,
    ) -> Result<ServerConfig, Refusal> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|error| Refusal::new("tls-protocols", error.to_string()))?;
        let is_optional = settings.client_authentication == ClientAuthentication::Optional;
        let asks = settings.client_authentication != ClientAuthentication::No;
        let verifier = match authorities.filter(|_| asks) {
            None => WebPkiClientVerifier::no_client_auth(),
            Some(authorities) => {
                let provider = Arc::clone(&self.provider);
                let verifier = ClientVerifier::new(authorities, provider, is_optional);
                Arc::new(verifier.map_err(|why| Refusal::new("tls-ca-cert-file", why))?)
            }
        };
        let resolver = Arc::new(SingleCertAndKey::from(own));
        let mut config = builder.with_client_cert_verifier(verifier).with_cert_resolver(resolver);
        config.ignore_client_order = settings.policy.prefers_own;
        config.session_storage = match settings.caching {
            Some((entries_max, timeout)) => {
                Arc::new(SessionCache::new(entries_max, timeout, self.clock.clone()))
            }
            None => {
                config.send_tls13_tickets = 0;
                Arc::new(NoServerSessionStorage {})
            }
        };
        Ok(config)
    }

    fn client(
        &self,
        settings: &Settings,
        own: Option<Arc<CertifiedKey>>,
        authorities: Option<Arc<Authorities>>,
        check: PeerCheck,
    ) -> Result<ClientConfig, Refusal> {
        let none = || Arc::new(Authorities { store: RootCertStore::empty(), certificates: vec![] });
        let expected = settings.expected_names.iter().map(|name| {
            let name = ServerName::try_from(name.clone());
            name.map_err(|_| Refusal::new("tls-expected-peer-name", "this is no name of a host"))
        });
        let verifier = ServerVerifier {
            authorities: authorities.unwrap_or_else(none),
            provider: Arc::clone(&self.provider),
            expected: expected.collect::<Result<_, _>>()?,
            check,
        };
        let builder = ClientConfig::builder_with_provider(Arc::clone(&self.provider))
            .with_protocol_versions(&self.versions)
            .map_err(|error| Refusal::new("tls-protocols", error.to_string()))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match own {
            Some(own) => builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
            None => builder.with_no_client_auth(),
        };
        // Where no name of a host is asked for there is none to tell.
        config.enable_sni = check == PeerCheck::TrustAndName;
        if settings.caching.is_none() {
            config.resumption = Resumption::disabled();
        }
        Ok(config)
    }
}

fn authorities(settings: &Settings) -> Result<Option<Authorities>, Refusal> {
    let of_file = settings.ca_file.as_deref().map(files::authorities).transpose();
    let of_file = of_file.map_err(|why| Refusal::new("tls-ca-cert-file", why))?;
    let of_folder = settings.ca_folder.as_deref().map(files::authorities_of_folder).transpose();
    let of_folder = of_folder.map_err(|why| Refusal::new("tls-ca-cert-dir", why))?;
    Ok(match (of_file, of_folder) {
        (Some(mut all), Some(more)) => {
            all.add(more);
            Some(all)
        }
        (one, other) => one.or(other),
    })
}

fn fields(own: &CertifiedKey) -> Result<Certificate, Refusal> {
    let first = own.cert.first().map(CertificateDer::as_ref).and_then(Certificate::read);
    first.ok_or_else(|| Refusal::new("tls-cert-file", "holds no certificate"))
}
