//! Private keys from PEM files, encrypted ones too: PKCS#8 under PBES2, which is what OpenSSL has
//! written since 1.1.
//!
//! Invariants: an error never shows a password or a byte of a key; how long a password is tried is
//! bounded.

use std::num::NonZeroU32;
use std::path::Path;

use aws_lc_rs::cipher::{
    AES_128, AES_256, Algorithm, DecryptionContext, PaddedBlockDecryptingKey, UnboundCipherKey,
};
use aws_lc_rs::iv::FixedLength;
use aws_lc_rs::pbkdf2;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs1KeyDer, PrivatePkcs8KeyDer, PrivateSec1KeyDer};

use crate::der::{Der, INTEGER, OCTETS, OID, SEQUENCE};
use crate::files::{self, PemSection};

/// What to do with a key that cannot be read as it is.
const ADVICE: &str = "convert it with `openssl pkcs8 -topk8 -v2 aes-256-cbc`";

/// A password is hashed no more often than this: ten seconds' work.
const ITERATIONS_MAX: u32 = 10_000_000;

const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0d];
const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0c];

/// Those of HMAC with a hash end in these.
const HMAC: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02];
const AES_CBC: &[(&[u8], &Algorithm, usize)] = &[
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x02], &AES_128, 16),
    (&[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x01, 0x2a], &AES_256, 32),
];

/// The key of a file.
pub(crate) fn read(path: &Path, password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    let say = |why: String| format!("'{}': {why}", path.display());
    let sections = files::sections(&files::read(path)?).map_err(say)?;
    let mut keys = sections.into_iter().filter(|it| it.label.ends_with("PRIVATE KEY"));
    let section = keys.next();
    let section = section.ok_or_else(|| format!("'{}' has no key in PEM", path.display()))?;
    of_section(section, password).map_err(say)
}

fn of_section(
    PemSection { label, has_headers, der }: PemSection,
    password: &[u8],
) -> Result<PrivateKeyDer<'static>, String> {
    if has_headers {
        return Err(format!("a key that is encrypted in an old form; {ADVICE}"));
    }
    match &*label {
        "PRIVATE KEY" => Ok(PrivatePkcs8KeyDer::from(der).into()),
        "RSA PRIVATE KEY" => Ok(PrivatePkcs1KeyDer::from(der).into()),
        "EC PRIVATE KEY" => Ok(PrivateSec1KeyDer::from(der).into()),
        "ENCRYPTED PRIVATE KEY" if password.is_empty() => {
            Err("the key is encrypted, and no password is given".to_owned())
        }
        "ENCRYPTED PRIVATE KEY" => {
            let encrypted = Encrypted::read(&der);
            let encrypted = encrypted
                .ok_or_else(|| format!("a key that is encrypted by other means; {ADVICE}"))?;
            let key = encrypted.decrypt(password).ok_or("the password is not that of the key")?;
            Ok(PrivatePkcs8KeyDer::from(key).into())
        }
        other => Err(format!("{other} is no kind of key that is known here; {ADVICE}")),
    }
}

/// A key under a password, as RFC 8018 has it.
struct Encrypted<'a> {
    salt: &'a [u8],
    iterations: NonZeroU32,
    hash: pbkdf2::Algorithm,
    cipher: &'static Algorithm,
    key_len: usize,
    iv: [u8; 16],
    ciphertext: &'a [u8],
}

impl<'a> Encrypted<'a> {
    fn read(der: &'a [u8]) -> Option<Self> {
        let mut whole = Der::new(der).enter(SEQUENCE)?;
        let mut algorithm = whole.enter(SEQUENCE)?;
        let ciphertext = whole.take(OCTETS)?;
        if algorithm.take(OID)? != PBES2 {
            return None;
        }
        let mut parameters = algorithm.enter(SEQUENCE)?;
        let (mut derivation, mut scheme) =
            (parameters.enter(SEQUENCE)?, parameters.enter(SEQUENCE)?);
        if derivation.take(OID)? != PBKDF2 {
            return None;
        }
        let mut derivation = derivation.enter(SEQUENCE)?;
        let (salt, iterations) = (derivation.take(OCTETS)?, number(derivation.take(INTEGER)?)?);
        // The length of the key is what the cipher says.
        let _ = derivation.take(INTEGER);
        let hash = match derivation.enter(SEQUENCE) {
            None => pbkdf2::PBKDF2_HMAC_SHA1,
            Some(mut hash) => match hash.take(OID)?.strip_prefix(HMAC)? {
                [7] => pbkdf2::PBKDF2_HMAC_SHA1,
                [9] => pbkdf2::PBKDF2_HMAC_SHA256,
                [10] => pbkdf2::PBKDF2_HMAC_SHA384,
                [11] => pbkdf2::PBKDF2_HMAC_SHA512,
                _ => return None,
            },
        };
        let name = scheme.take(OID)?;
        let (_, cipher, key_len) = AES_CBC.iter().find(|(oid, ..)| *oid == name)?;
        let iv = scheme.take(OCTETS)?.try_into().ok()?;
        let iterations =
            NonZeroU32::new(iterations).filter(|iterations| iterations.get() <= ITERATIONS_MAX)?;
        Some(Self { salt, iterations, hash, cipher, key_len: *key_len, iv, ciphertext })
    }

    fn decrypt(&self, password: &[u8]) -> Option<Vec<u8>> {
        let mut key = [0; 32];
        let key = &mut key[..self.key_len];
        pbkdf2::derive(self.hash, self.iterations, self.salt, password, key);
        let key = UnboundCipherKey::new(self.cipher, key).ok()?;
        let key = PaddedBlockDecryptingKey::cbc_pkcs7(key).ok()?;
        let context = DecryptionContext::Iv128(FixedLength::from(self.iv));
        let mut bytes = self.ciphertext.to_vec();
        let plain = key.decrypt(&mut bytes, context).ok()?;
        // A wrong password leaves a right padding now and then.
        Der::new(plain).enter(SEQUENCE)?;
        Some(plain.to_vec())
    }
}

fn number(bytes: &[u8]) -> Option<u32> {
    let bytes = bytes.strip_prefix(&[0]).unwrap_or(bytes);
    (bytes.len() <= 4).then(|| bytes.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
}

#[cfg(test)]
mod tests {
    use rustls::pki_types::PrivateKeyDer;

    use super::read;

    /// A P-256 key by `openssl pkcs8 -topk8 -v2 aes-256-cbc -passout pass:secret`.
    const ENCRYPTED: &str = include_str!("private_key/encrypted.pem");
    /// The same by `openssl ec -aes256`, which is the old form.
    const OLD_FORM: &str = include_str!("private_key/old_form.pem");
    /// The same by `openssl pkcs8 -topk8 -v1 PBE-SHA1-3DES`.
    const OTHER_MEANS: &str = include_str!("private_key/other_means.pem");

    fn tried(text: &str, password: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read(file.path(), password).map_err(|why| why.rsplit("': ").next().unwrap().to_owned())
    }

    #[test]
    fn an_encrypted_key_opens_with_its_password_only() {
        let key = tried(ENCRYPTED, b"secret").unwrap();
        assert!(rustls::crypto::aws_lc_rs::sign::any_supported_type(&key).is_ok());
        for wrong in [&b"Secret"[..], b"secrets", b"s"] {
            assert_eq!(tried(ENCRYPTED, wrong), Err("the password is not that of the key".into()));
        }
        let none = "the key is encrypted, and no password is given";
        assert_eq!(tried(ENCRYPTED, b""), Err(none.into()));
    }

    #[test]
    fn what_cannot_be_read_says_what_to_do() {
        for text in [OLD_FORM, OTHER_MEANS] {
            let why = tried(text, b"secret").unwrap_err();
            assert!(why.contains("openssl pkcs8 -topk8"), "{why}");
        }
    }

    #[test]
    fn plain_keys_are_read_in_each_form() {
        let pem = rcgen::KeyPair::generate().unwrap().serialize_pem();
        assert!(matches!(tried(&pem, b""), Ok(PrivateKeyDer::Pkcs8(_))));
        let nothing = tried("-----BEGIN X-----\n-----END X-----\n", b"").unwrap_err();
        assert!(nothing.contains("has no key"), "{nothing}");
    }
}
