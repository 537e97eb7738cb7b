//! Memcached's options of TLS, `-Z` and those of `-o` that begin with `ssl_`, as our directives.
//!
//! Invariant: what would leave a server open, or weaker, that was to be closed is refused.

/// The options that were read.
#[derive(Default)]
pub(super) struct TlsOptions {
    /// `-Z`.
    pub(super) is_on: bool,
    chain: Option<Vec<u8>>,
    key: Option<Vec<u8>>,
    authorities: Option<Vec<u8>>,
    ciphers: Option<Vec<u8>>,
    verify: Option<&'static [u8]>,
    protocols: Option<&'static [u8]>,
    caches: bool,
}

impl TlsOptions {
    /// Takes one of `-o`, if it is of these; whether it is.
    pub(super) fn take(&mut self, option: &[u8]) -> Result<bool, String> {
        let at = option.iter().position(|byte| *byte == b'=').unwrap_or(option.len());
        let (name, value) = (&option[..at], option.get(at + 1..).unwrap_or_default());
        let refuse = |why: &str| {
            let option = String::from_utf8_lossy(option);
            Err(format!("memcached: -o {option}: {why}"))
        };
        match name {
            b"ssl_chain_cert" => self.chain = Some(value.to_vec()),
            b"ssl_key" => self.key = Some(value.to_vec()),
            b"ssl_ca_cert" => self.authorities = Some(value.to_vec()),
            b"ssl_ciphers" => self.ciphers = Some(value.to_vec()),
            b"ssl_session_cache" => self.caches = true,
            b"ssl_keyformat" if value.eq_ignore_ascii_case(b"PEM") => {}
            b"ssl_keyformat" => return refuse("keys are read in PEM: convert it with openssl"),
            b"ssl_verify_mode" => match value {
                b"0" => self.verify = Some(b"no"),
                b"1" => self.verify = Some(b"optional"),
                b"2" | b"3" => self.verify = Some(b"yes"),
                _ => return refuse("it is 0 (none), 1 (request), 2 (require) or 3 (once)"),
            },
            b"ssl_min_version" => match value {
                b"2" | b"tlsv1.2" => self.protocols = Some(b"TLSv1.2 TLSv1.3"),
                b"3" | b"tlsv1.3" => self.protocols = Some(b"TLSv1.3"),
                _ => return refuse("TLS 1.0 and 1.1 are not spoken: use 2 (1.2) or 3 (1.3)"),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// What they say in directives of ours.
    pub(super) fn directives(self) -> Result<Vec<(&'static str, Vec<u8>)>, String> {
        if !self.is_on {
            return Ok(Vec::new());
        }
        let chain =
            self.chain.ok_or("memcached: -Z wants a certificate: -o ssl_chain_cert=FILE")?;
        let key = self.key.unwrap_or_else(|| chain.clone());
        let mut directives = vec![
            ("memcached-tls", b"yes".to_vec()),
            ("tls-cert-file", chain),
            ("tls-key-file", key),
            ("tls-auth-clients", self.verify.unwrap_or(b"no").to_vec()),
            ("tls-protocols", self.protocols.unwrap_or(b"TLSv1.2 TLSv1.3").to_vec()),
            ("tls-session-caching", if self.caches { b"yes".to_vec() } else { b"no".to_vec() }),
        ];
        let more = [("tls-ca-cert-file", self.authorities), ("tls-ciphers", self.ciphers)];
        directives.extend(more.into_iter().filter_map(|(name, value)| Some((name, value?))));
        Ok(directives)
    }
}
