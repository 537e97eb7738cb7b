//! Whether a peer's certificate is trusted: by a chain to an authority, or because it is itself
//! among those that are.
//!
//! Invariant: a certificate that is not trusted does not count. Names of hosts are not asked for
//! among servers of this family, as none of them does, unless the operator expects some.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::certificate::Certificate;
use crate::files::Authorities;

/// What servers show us is checked so.
#[derive(Debug)]
pub(crate) struct ServerVerifier {
    pub(crate) authorities: Arc<Authorities>,
    pub(crate) provider: Arc<CryptoProvider>,
    /// Names of which the certificate must carry one; any will do if there are none.
    pub(crate) expected: Vec<ServerName<'static>>,
    /// What is checked at all.
    pub(crate) check: PeerCheck,
}

/// What is checked of a server that was connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PeerCheck {
    /// Nothing, because the operator said so.
    Nothing,
    /// Whether its certificate is trusted.
    Trust,
    /// That, and whether the certificate is of the host that was meant.
    TrustAndName,
}

/// What clients show us is checked so.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    authorities: Arc<Authorities>,
    chain: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    /// Whether this very certificate is trusted, and holds now.
    fn name(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<bool, Error> {
        if !self.certificates.contains(certificate) {
            return Ok(false);
        }
        let fields = Certificate::read(certificate).ok_or(CertificateError::BadEncoding)?;
        let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if now < fields.not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > fields.not_after {
            return Err(CertificateError::Expired.into());
        }
        Ok(true)
    }
}

impl ClientVerifier {
    pub(crate) fn new(
        authorities: Arc<Authorities>,
        provider: Arc<CryptoProvider>,
        is_optional: bool,
    ) -> Result<Self, String> {
        let store = Arc::new(authorities.store.clone());
        let builder = WebPkiClientVerifier::builder_with_provider(store, provider);
        let builder = if is_optional { builder.allow_unauthenticated() } else { builder };
        let chain = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { authorities, chain })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.chain.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.authorities.name(end_entity, now)? {
            return Ok(ClientCertVerified::assertion());
        }
        self.chain.verify_client_cert(end_entity, intermediates, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chain.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.check == PeerCheck::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        if !self.authorities.name(end_entity, now)? {
            verify_server_cert_signed_by_trust_anchor(
                &ParsedCertificate::try_from(end_entity)?,
                &self.authorities.store,
                intermediates,
                now,
                self.provider.signature_verification_algorithms.all,
            )?;
        }
        if self.check == PeerCheck::TrustAndName {
            verify_server_name(&ParsedCertificate::try_from(end_entity)?, name)?;
        }
        if !self.expected.is_empty() {
            let parsed = ParsedCertificate::try_from(end_entity)?;
            let mut verdicts = self.expected.iter().map(|name| verify_server_name(&parsed, name));
            if !verdicts.any(|verdict| verdict.is_ok()) {
                return Err(CertificateError::NotValidForName.into());
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
