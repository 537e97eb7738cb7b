//! What a certificate says: whose it is, its number, from when until when.
//!
//! Invariants: names are the bytes that stand there, to their end, whatever is in them; what is no
//! certificate says nothing.

use crate::der::{Der, INTEGER, OCTETS, OID, SEQUENCE, SET, UTC_TIME};

/// Fields of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// Its number, in hexadecimal digits.
    pub serial: String,
    /// When the certificate begins to hold, in seconds since the epoch.
    pub not_before: i64,
    /// When the certificate ends to hold, in seconds since the epoch.
    pub not_after: i64,
    /// The common name of its subject: the first, if there are more.
    pub common_name: Option<Vec<u8>>,
    /// The URIs among its subject's other names.
    pub uris: Vec<Vec<u8>>,
    /// Its public key, as it stands there.
    pub(crate) public_key: Vec<u8>,
}

const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 0x11];

/// The tags of a certificate's optional parts, and of a URI among names.
const VERSION: u8 = 0xa0;
const EXTENSIONS: u8 = 0xa3;
const URI: u8 = 0x86;

impl Certificate {
    /// Reads one in DER.
    pub fn read(der: &[u8]) -> Option<Self> {
        let mut body = Der::new(der).enter(SEQUENCE)?.enter(SEQUENCE)?;
        let _ = body.enter(VERSION);
        let serial = body.take(INTEGER)?;
        // The algorithm of its signature, and the issuer.
        body.enter(SEQUENCE)?;
        body.enter(SEQUENCE)?;
        let mut validity = body.enter(SEQUENCE)?;
        let (not_before, not_after) = (time(&mut validity)?, time(&mut validity)?);
        let common_name = common_name(body.enter(SEQUENCE)?);
        let public_key = body.any()?.whole.to_vec();
        let mut uris = Vec::new();
        while let Some(part) = body.any() {
            if part.tag == EXTENSIONS {
                uris = alternative_uris(Der::new(part.content).enter(SEQUENCE)?);
            }
        }
        let serial = serial.strip_prefix(&[0]).filter(|rest| !rest.is_empty()).unwrap_or(serial);
        let serial = serial.iter().map(|byte| format!("{byte:02X}")).collect();
        Some(Self { serial, not_before, not_after, common_name, uris, public_key })
    }
}

fn common_name(mut subject: Der<'_>) -> Option<Vec<u8>> {
    while let Some(mut set) = subject.enter(SET) {
        while let Some(mut attribute) = set.enter(SEQUENCE) {
            if attribute.take(OID) == Some(COMMON_NAME) {
                return Some(attribute.any()?.content.to_vec());
            }
        }
    }
    None
}

fn alternative_uris(mut extensions: Der<'_>) -> Vec<Vec<u8>> {
    let mut uris = Vec::new();
    while let Some(mut extension) = extensions.enter(SEQUENCE) {
        if extension.take(OID) != Some(ALTERNATIVE_NAMES) {
            continue;
        }
        // The flag of a critical extension stands before.
        let _ = extension.take(crate::der::BOOLEAN);
        let names = extension.take(OCTETS).and_then(|names| Der::new(names).enter(SEQUENCE));
        let mut names = names.unwrap_or(Der::new(&[]));
        while let Some(name) = names.any() {
            if name.tag == URI {
                uris.push(name.content.to_vec());
            }
        }
    }
    uris
}

/// Seconds since the epoch of a time in UTC, of two digits of the year or four.
fn time(der: &mut Der<'_>) -> Option<i64> {
    let element = der.any()?;
    let digits = element.content.strip_suffix(b"Z")?;
    let pair = |place: usize| -> Option<i64> {
        let digits = digits.get(place..place + 2)?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let (year, rest) = match element.tag {
        UTC_TIME => (pair(0).map(|year| if year < 50 { 2000 + year } else { 1900 + year })?, 2),
        _ => (pair(0)? * 100 + pair(2)?, 4),
    };
    let (month, day) = (pair(rest)?, pair(rest + 2)?);
    let (hour, minute, second) = (pair(rest + 4)?, pair(rest + 6)?, pair(rest + 8)?);
    Some(((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days from the epoch to a date.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // A year that begins in March has its leap day at the end.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    365 * year + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType, SerialNumber};

    use super::{Certificate, days};

    fn made(params: &CertificateParams) -> Certificate {
        let key = KeyPair::generate().unwrap();
        Certificate::read(params.self_signed(&key).unwrap().der()).unwrap()
    }

    #[test]
    fn what_stands_in_a_certificate_is_read() {
        let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::OrganizationName, "before");
        params.distinguished_name.push(DnType::CommonName, "alice");
        let uri = "spiffe://example/bob".try_into().unwrap();
        params.subject_alt_names.push(SanType::URI(uri));
        params.serial_number = Some(SerialNumber::from(vec![0xab, 0x01]));
        params.not_before = rcgen::date_time_ymd(2001, 2, 3);
        params.not_after = rcgen::date_time_ymd(2076, 12, 31);
        let read = made(&params);
        assert_eq!(read.common_name.as_deref(), Some(&b"alice"[..]));
        assert_eq!(read.uris, [b"spiffe://example/bob"]);
        assert_eq!(read.serial, "AB01");
        assert_eq!(read.not_before, 981_158_400);
        assert_eq!(read.not_after, 3_376_598_400);
    }

    #[test]
    fn a_name_goes_to_its_end_whatever_is_in_it() {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "admin\0.example");
        assert_eq!(made(&params).common_name.as_deref(), Some(&b"admin\0.example"[..]));
    }

    #[test]
    fn what_is_cut_is_no_certificate_and_no_panic() {
        let key = KeyPair::generate().unwrap();
        let whole = CertificateParams::default().self_signed(&key).unwrap();
        for cut in 0..whole.der().len() {
            assert!(Certificate::read(&whole.der()[..cut]).is_none(), "{cut}");
        }
        for place in 0..whole.der().len() {
            let mut other = whole.der().to_vec();
            other[place] ^= 0x55;
            let _ = Certificate::read(&other);
        }
    }

    #[test]
    fn days_are_counted_over_leap_years() {
        assert_eq!(days(1970, 1, 1), 0);
        assert_eq!(days(2000, 2, 29), 11_016);
        assert_eq!(days(2000, 3, 1), 11_017);
        assert_eq!(days(2100, 3, 1), 47_541);
    }
}
