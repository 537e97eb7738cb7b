//! PEM files: certificates, the authorities of a file or a folder, and sections as they are.
//!
//! Invariant: an error says of which file it is, and what is wrong in words that an operator knows.

use std::path::{Path, PathBuf};

use base::base64;
use base::io_error_text::strerror;
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;

/// Certificates that are trusted, as they came, with the same as what signatures are checked by.
#[derive(Debug)]
pub(crate) struct Authorities {
    pub(crate) store: RootCertStore,
    pub(crate) certificates: Vec<CertificateDer<'static>>,
}

/// A piece of a PEM file.
pub(crate) struct PemSection {
    pub(crate) label: String,
    /// Whether lines of headers stand in it, which only encrypted keys of an old form have.
    pub(crate) has_headers: bool,
    pub(crate) der: Vec<u8>,
}

/// Reads a file.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("'{}': {}", path.display(), strerror(&error)))
}

/// All certificates of a file, of which there is one at least.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let sections = sections(&read(path)?).map_err(|why| format!("'{}': {why}", path.display()))?;
    let is_certificate = |section: &PemSection| {
        matches!(&*section.label, "CERTIFICATE" | "X509 CERTIFICATE" | "TRUSTED CERTIFICATE")
    };
    let found: Vec<_> = sections
        .into_iter()
        .filter(is_certificate)
        .map(|section| CertificateDer::from(section.der))
        .collect();
    if found.is_empty() {
        return Err(format!("'{}' has no certificate in PEM", path.display()));
    }
    Ok(found)
}

/// The authorities of a file.
pub(crate) fn authorities(path: &Path) -> Result<Authorities, String> {
    let certificates = certificates(path)?;
    let mut store = RootCertStore::empty();
    for certificate in &certificates {
        let added = store.add(certificate.clone());
        added.map_err(|error| format!("'{}': {error}", path.display()))?;
    }
    Ok(Authorities { store, certificates })
}

/// The authorities of a folder: of each file there that has certificates, hashed names or not.
pub(crate) fn authorities_of_folder(path: &Path) -> Result<Authorities, String> {
    let fail = |error: std::io::Error| format!("'{}': {}", path.display(), strerror(&error));
    let mut files: Vec<PathBuf> = std::fs::read_dir(path)
        .map_err(fail)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(fail)?;
    files.sort();
    let mut all = Authorities { store: RootCertStore::empty(), certificates: Vec::new() };
    for file in files.iter().filter(|file| file.is_file()) {
        // What else lies there is not ours to judge.
        let Ok(more) = authorities(file) else { continue };
        all.add(more);
    }
    if all.certificates.is_empty() {
        return Err(format!("'{}' has no file with certificates in PEM", path.display()));
    }
    Ok(all)
}

impl Authorities {
    /// These, and those.
    pub(crate) fn add(&mut self, more: Self) {
        self.store.roots.extend(more.store.roots);
        self.certificates.extend(more.certificates);
    }
}

/// The sections of a PEM file; text between them is nothing.
pub(crate) fn sections(text: &[u8]) -> Result<Vec<PemSection>, String> {
    let mut sections = Vec::new();
    let mut lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    while let Some(line) = lines.next() {
        let Some(label) = framed(line, b"-----BEGIN ") else { continue };
        let end = [b"-----END ", label, b"-----"].concat();
        let (mut body, mut has_headers, mut has_end) = (Vec::new(), false, false);
        for line in lines.by_ref() {
            if line == end {
                has_end = true;
                break;
            }
            if line.contains(&b':') {
                has_headers = true;
            } else {
                body.extend_from_slice(line);
            }
        }
        let label = String::from_utf8_lossy(label).into_owned();
        if !has_end {
            return Err(format!("the section {label} has no end"));
        }
        let mut room = vec![0; body.len()];
        let der = match has_headers {
            true => Some(&[][..]),
            false => base64::decode(&body, &mut room),
        };
        let der = der.ok_or_else(|| format!("the section {label} is no base64"))?.to_vec();
        sections.push(PemSection { label, has_headers, der });
    }
    Ok(sections)
}

/// What stands between such a beginning and five dashes.
fn framed<'a>(line: &'a [u8], begin: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(begin)?.strip_suffix(b"-----")
}

#[cfg(test)]
mod tests {
    use super::{authorities_of_folder, certificates, sections};

    #[test]
    fn sections_are_told_apart() {
        let text = b"words\n-----BEGIN A B-----\r\nAAEC\r\nAw==\r\n-----END A B-----\n\
                     -----BEGIN C-----\nProc-Type: 4,ENCRYPTED\n\nAAEC\n-----END C-----\n";
        let read = sections(text).unwrap();
        assert_eq!((&*read[0].label, &*read[0].der), ("A B", &[0, 1, 2, 3][..]));
        assert!(!read[0].has_headers && read[1].has_headers);
        let cut = sections(b"-----BEGIN A-----\nAAEC\n").map(|_| ());
        assert_eq!(cut, Err("the section A has no end".to_owned()));
        let garbled = sections(b"-----BEGIN A-----\nA*EC\n-----END A-----\n").map(|_| ());
        assert_eq!(garbled, Err("the section A is no base64".to_owned()));
    }

    #[test]
    fn a_folder_gives_what_is_certificates_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        let empty = authorities_of_folder(folder.path()).unwrap_err();
        assert!(empty.contains("no file with certificates"), "{empty}");
        std::fs::write(folder.path().join("one.pem"), &pem).unwrap();
        std::fs::write(folder.path().join("other"), "no certificate").unwrap();
        assert_eq!(authorities_of_folder(folder.path()).unwrap().certificates.len(), 1);
        let other = certificates(&folder.path().join("other")).unwrap_err();
        assert!(other.ends_with("other' has no certificate in PEM"), "{other}");
    }
}
