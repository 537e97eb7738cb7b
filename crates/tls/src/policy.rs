//! What is spoken: versions, ciphers and groups, by the words that OpenSSL has for them.
//!
//! Invariant: a word that means something which is not spoken here is refused with what to say
//! instead; what is left is never nothing.

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup, SupportedCipherSuite, SupportedProtocolVersion};

use crate::contexts::Refusal;

/// The words of the directives, as they were given; empty ones mean what is best.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    /// `tls-protocols`.
    pub protocols: String,
    /// `tls-ciphers`: those of TLS 1.2.
    pub ciphers: String,
    /// `tls-ciphersuites`: those of TLS 1.3.
    pub ciphersuites: String,
    /// `tls-groups`.
    pub groups: String,
    /// `tls-prefer-server-ciphers`.
    pub prefers_own: bool,
}

/// The suites of TLS 1.2 by OpenSSL's names.
const OF_TLS12: &[(&str, CipherSuite)] = &[
    ("ECDHE-ECDSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ("ECDHE-RSA-AES256-GCM-SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("ECDHE-RSA-AES128-GCM-SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("ECDHE-RSA-CHACHA20-POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];

const OF_TLS13: &[(&str, CipherSuite)] = &[
    ("TLS_AES_256_GCM_SHA384", CipherSuite::TLS13_AES_256_GCM_SHA384),
    ("TLS_AES_128_GCM_SHA256", CipherSuite::TLS13_AES_128_GCM_SHA256),
    ("TLS_CHACHA20_POLY1305_SHA256", CipherSuite::TLS13_CHACHA20_POLY1305_SHA256),
];

/// Words that stand for all suites that are spoken here: each of them is a strong one.
const WHOLE_LISTS: &[&str] = &[
    "DEFAULT",
    "ALL",
    "HIGH",
    "COMPLEMENTOFDEFAULT",
    "ECDHE",
    "EECDH",
    "kECDHE",
    "kEECDH",
    "AEAD",
];

const GROUPS: &[(&str, NamedGroup)] = &[
    ("X25519", NamedGroup::X25519),
    ("P-256", NamedGroup::secp256r1),
    ("prime256v1", NamedGroup::secp256r1),
    ("secp256r1", NamedGroup::secp256r1),
    ("P-384", NamedGroup::secp384r1),
    ("secp384r1", NamedGroup::secp384r1),
    ("X25519MLKEM768", NamedGroup::X25519MLKEM768),
    ("SecP256r1MLKEM768", NamedGroup::secp256r1MLKEM768),
];

impl Policy {
    /// What is spoken.
    pub(crate) fn provider(&self) -> Result<CryptoProvider, Refusal> {
        let mut provider = aws_lc_rs::default_provider();
        let known = aws_lc_rs::ALL_CIPHER_SUITES;
        let mut wanted = self.suites_of_tls13()?;
        wanted.extend(self.suites_of_tls12()?);
        let named = |suite: &CipherSuite| known.iter().copied().find(|it| it.suite() == *suite);
        provider.cipher_suites = wanted.iter().filter_map(named).collect();
        if !self.groups.is_empty() {
            provider.kx_groups = self.key_exchanges()?;
        }
        Ok(provider)
    }

    /// The versions.
    pub(crate) fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, Refusal> {
        let refuse = |why: String| Refusal::new("tls-protocols", why);
        let mut versions = Vec::new();
        for word in self.protocols.split_ascii_whitespace() {
            versions.push(match &*word.to_ascii_lowercase() {
                "tlsv1.2" => &TLS12,
                "tlsv1.3" => &TLS13,
                "tlsv1" | "tlsv1.0" | "tlsv1.1" | "sslv2" | "sslv3" => {
                    return Err(refuse(format!(
                        "{word} is not spoken any more: use TLSv1.2, TLSv1.3 or both"
                    )));
                }
                _ => {
                    return Err(refuse(format!(
                        "{word} is no version: use TLSv1.2, TLSv1.3 or both"
                    )));
                }
            });
        }
        if versions.is_empty() {
            versions = vec![&TLS13, &TLS12];
        }
        let is_spoken = |version: &&SupportedProtocolVersion| {
            let provider = self.provider()?;
            Ok(provider.cipher_suites.iter().any(|suite| suite.version() == *version))
        };
        for version in &versions {
            if !is_spoken(version)? {
                return Err(refuse("no cipher is left for one of them".to_owned()));
            }
        }
        Ok(versions)
    }

    fn suites_of_tls13(&self) -> Result<Vec<CipherSuite>, Refusal> {
        let mut suites = Vec::new();
        for word in words(&self.ciphersuites) {
            let suite = OF_TLS13.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            let (_, suite) = suite.ok_or_else(|| {
                let why = format!("'{word}' is not spoken here: use {}", names(OF_TLS13));
                Refusal::new("tls-ciphersuites", why)
            })?;
            suites.push(*suite);
        }
        if suites.is_empty() {
            suites.extend(OF_TLS13.iter().map(|(_, suite)| *suite));
        }
        Ok(suites)
    }

    fn suites_of_tls12(&self) -> Result<Vec<CipherSuite>, Refusal> {
        let mut suites: Vec<CipherSuite> = Vec::new();
        let all = || OF_TLS12.iter().map(|(_, suite)| *suite);
        for word in words(&self.ciphers) {
            // What is left out and what comes last was not spoken anyway, or is told by its name.
            if let Some(name) = word.strip_prefix(['!', '-']) {
                suites.retain(|suite| !means(name, *suite));
                continue;
            }
            let name = word.strip_prefix('+').unwrap_or(word);
            if word.starts_with('@') || name != word {
                continue;
            }
            let before = suites.len();
            suites.extend(all().filter(|suite| means(name, *suite)));
            if suites.len() == before {
                let why = format!("'{word}' is not spoken here: use {}", names(OF_TLS12));
                return Err(Refusal::new("tls-ciphers", why));
            }
        }
        if words(&self.ciphers).next().is_none() {
            suites.extend(all());
        }
        let mut kept = Vec::new();
        suites.into_iter().for_each(|suite| {
            if !kept.contains(&suite) {
                kept.push(suite);
            }
        });
        Ok(kept)
    }

    fn key_exchanges(&self) -> Result<Vec<&'static dyn rustls::crypto::SupportedKxGroup>, Refusal> {
        let mut groups = Vec::new();
        for word in words(&self.groups) {
            let word = word.trim_start_matches(['?', '*']);
            let named = GROUPS.iter().find(|(name, _)| name.eq_ignore_ascii_case(word));
            let group = named.and_then(|(_, group)| {
                aws_lc_rs::ALL_KX_GROUPS.iter().find(|it| it.name() == *group)
            });
            groups.push(*group.ok_or_else(|| {
                let why = format!(
                    "'{word}' is not spoken here: use X25519, P-256, P-384 or X25519MLKEM768"
                );
                Refusal::new("tls-groups", why)
            })?);
        }
        Ok(groups)
    }
}

/// Whether a word of a list means this suite among others.
fn means(word: &str, suite: CipherSuite) -> bool {
    let name = OF_TLS12.iter().find(|(_, it)| *it == suite).map_or("", |(name, _)| name);
    if WHOLE_LISTS.contains(&word) || word.eq_ignore_ascii_case(name) {
        return true;
    }
    // Words joined by `+` are meant all at once.
    let one = |word: &str| match word {
        "aRSA" | "RSA" => name.contains("-RSA-"),
        "aECDSA" | "ECDSA" => name.contains("-ECDSA-"),
        "AES" | "AESGCM" => name.contains("-AES"),
        "AES128" => name.contains("-AES128"),
        "AES256" => name.contains("-AES256"),
        "CHACHA20" => name.contains("-CHACHA20"),
        "SHA256" => name.ends_with("SHA256"),
        "SHA384" => name.ends_with("SHA384"),
        word => WHOLE_LISTS.contains(&word),
    };
    word.split('+').all(one)
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.split([':', ',', ' ']).filter(|word| !word.is_empty())
}

fn names(of: &[(&str, CipherSuite)]) -> String {
    of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

/// The name that OpenSSL has for a suite.
pub(crate) fn name_of(suite: SupportedCipherSuite) -> &'static str {
    let all = OF_TLS13.iter().chain(OF_TLS12);
    all.clone().find(|(_, it)| *it == suite.suite()).map_or("unknown", |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use rustls::ProtocolVersion;

    use super::{Policy, name_of};

    fn ciphers(list: &str) -> Result<Vec<&'static str>, String> {
        let policy = Policy { ciphers: list.to_owned(), ..Policy::default() };
        let provider = policy.provider().map_err(|refusal| refusal.to_string())?;
        let names = provider.cipher_suites.iter().map(|suite| name_of(*suite));
        Ok(names.filter(|name| !name.starts_with("TLS_")).collect())
    }

    #[test]
    fn lists_of_ciphers_mean_what_they_do_for_openssl() {
        let all = ciphers("").unwrap();
        assert_eq!(all.len(), 6);
        assert_eq!(ciphers("DEFAULT:!MEDIUM:!aNULL").unwrap(), all);
        assert_eq!(ciphers("HIGH:!aNULL:@STRENGTH").unwrap(), all);
        let two = ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-AES128-GCM-SHA256"];
        assert_eq!(ciphers("ECDHE+aRSA+AESGCM").unwrap(), two);
        assert_eq!(ciphers(&two.join(":")).unwrap(), two);
        assert_eq!(ciphers(&[two[1], two[0], two[1]].join(":")).unwrap(), [two[1], two[0]]);
        assert!(ciphers("DEFAULT:!CHACHA20").unwrap().iter().all(|name| name.contains("AES")));
    }

    #[test]
    fn what_is_not_spoken_is_refused_by_name() {
        for old in ["AES128-SHA", "DHE-RSA-AES256-GCM-SHA384", "RC4", "ECDHE-RSA-AES256-SHA"] {
            let why = ciphers(&format!("ECDHE-RSA-AES128-GCM-SHA256:{old}")).unwrap_err();
            assert!(why.starts_with(&format!("tls-ciphers: '{old}' is not spoken here: use ")));
        }
        let versions = |protocols: &str| {
            let policy = Policy { protocols: protocols.to_owned(), ..Policy::default() };
            let versions = policy.versions().map_err(|refusal| refusal.to_string())?;
            Ok::<_, String>(versions.iter().map(|it| it.version).collect::<Vec<_>>())
        };
        assert_eq!(versions("").unwrap().len(), 2);
        assert_eq!(versions("TLSv1.3").unwrap(), [ProtocolVersion::TLSv1_3]);
        let old = versions("TLSv1.1 TLSv1.2").unwrap_err();
        assert_eq!(
            old,
            "tls-protocols: TLSv1.1 is not spoken any more: use TLSv1.2, TLSv1.3 or both"
        );
        let suites = Policy { ciphersuites: "TLS_AES_128_CCM_SHA256".into(), ..Policy::default() };
        assert!(suites.provider().unwrap_err().to_string().starts_with("tls-ciphersuites: "));
        let groups = Policy { groups: "X25519:P-521".into(), ..Policy::default() };
        assert!(groups.provider().unwrap_err().to_string().starts_with("tls-groups: 'P-521'"));
    }

    #[test]
    fn a_version_without_ciphers_is_refused() {
        let policy = Policy { ciphers: "DEFAULT:!ALL".into(), ..Policy::default() };
        assert!(policy.versions().is_err());
        let only = Policy { protocols: "TLSv1.3".into(), ..policy };
        assert_eq!(only.versions().unwrap().len(), 1);
    }
}
