//! The flags of encrypted connections. Invariant: what they set is looked at only with `--tls`.

use super::flags::{Flag, switch, value};

pub(super) const ENCRYPTION: &[Flag] = &[
    switch(None, "tls", "Encrypted connections; so does rediss:// in --uri", |draft| {
        draft.is_encrypted = true;
    }),
    value(
        None,
        "cert",
        "FILE",
        "Client certificate, if the server asks for one",
        |draft, _, text| {
            draft.encryption.certificate = Some(text.into());
            Ok(())
        },
    ),
    value(None, "key", "FILE", "Its private key", |draft, _, text| {
        draft.encryption.key = Some(text.into());
        Ok(())
    }),
    value(None, "cacert", "FILE", "Authorities that are trusted", |draft, _, text| {
        draft.encryption.authorities = Some(text.into());
        Ok(())
    }),
    switch(None, "tls-skip-verify", "Trust any certificate of the server", |draft| {
        draft.encryption.trusts_all = true;
    }),
    value(None, "tls-protocols", "LIST", "TLSv1.2,TLSv1.3 (default), or one", |draft, _, text| {
        draft.encryption.protocols = text.replace(',', " ");
        Ok(())
    }),
    value(None, "sni", "HOST", "Name of the server that is wanted", |draft, _, text| {
        draft.encryption.sni = Some(text.into());
        Ok(())
    }),
    switch(None, "tls-resume", "Resume sessions where connections are made anew", |draft| {
        draft.encryption.resumes = true;
    }),
];
