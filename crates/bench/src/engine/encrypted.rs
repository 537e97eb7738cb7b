//! Encrypted connections. Invariant: what a read or a write says of its bytes goes for plaintext;
//! ciphertext that the system has not taken goes before anything else does.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;

use base::time::Clock;
use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};
use tls::contexts::{IdentityFiles, Settings, client_context};

use crate::options::{Encryption, Options};

/// What every encrypted connection begins with.
#[derive(Clone, Debug)]
pub(crate) struct Encryptor {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// An encrypted connection that never blocks.
#[derive(Debug)]
pub(super) struct EncryptedSocket {
    pub(super) socket: TcpStream,
    session: ClientConnection,
}

impl Encryptor {
    /// As the options ask for it; `None` where they do not.
    pub(crate) fn of(options: &Options) -> Result<Option<Self>, String> {
        let Some(encryption) = &options.encryption else { return Ok(None) };
        let context =
            client_context(&settings(encryption), &Clock::system(), encryption.trusts_all)
                .map_err(|refusal| {
                    let flag = flag_of(refusal.directive);
                    format!("error: --{flag}: {}.", refusal.why)
                })?;
        let mut config = ClientConfig::clone(&context);
        config.enable_sni = encryption.sni.is_some();
        let name = encryption.sni.as_ref().unwrap_or(&options.server).clone();
        let name = match (ServerName::try_from(name), &encryption.sni) {
            (Ok(name), _) => name,
            (Err(_), Some(sni)) => return Err(format!("error: --sni: '{sni}' is no host name.")),
            // Certificates are not compared with the name, so any will do.
            (Err(_), None) => ServerName::from(std::net::IpAddr::from([127, 0, 0, 1])),
        };
        Ok(Some(Self { config: Arc::new(config), name }))
    }

    fn session(&self) -> io::Result<ClientConnection> {
        ClientConnection::new(Arc::clone(&self.config), self.name.clone()).map_err(io::Error::other)
    }

    /// Encrypts a connection that has just been begun.
    pub(super) fn encrypt(&self, socket: TcpStream) -> io::Result<EncryptedSocket> {
        Ok(EncryptedSocket { socket, session: self.session()? })
    }
}

/// A connection whose calls wait.
pub(crate) trait Blocking: Read + Write {}

impl<Stream: Read + Write> Blocking for Stream {}

/// A connection whose calls wait, encrypted where connections are.
pub(crate) fn blocking(
    socket: std::net::TcpStream,
    encryptor: Option<&Encryptor>,
) -> io::Result<Box<dyn Blocking>> {
    Ok(match encryptor {
        Some(encryptor) => Box::new(StreamOwned::new(encryptor.session()?, socket)),
        None => Box::new(socket),
    })
}

fn settings(encryption: &Encryption) -> Settings {
    let mut settings = Settings {
        identity: IdentityFiles {
            certificate: encryption.certificate.clone(),
            key: encryption.key.clone(),
            password: Vec::new(),
        },
        ca_file: encryption.authorities.clone(),
        caching: encryption.resumes.then_some((1, 0)),
        ..Settings::default()
    };
    settings.policy.protocols.clone_from(&encryption.protocols);
    settings
}

/// The flag that stands for what the server has a directive for.
fn flag_of(directive: &str) -> &str {
    match directive {
        "tls-cert-file" => "cert",
        "tls-key-file" => "key",
        "tls-ca-cert-file" => "cacert",
        other => other,
    }
}

impl EncryptedSocket {
    /// Goes on with the handshake; whether it is over.
    pub(super) fn handshake(&mut self) -> io::Result<bool> {
        loop {
            if let Err(error) = self.flush()
                && error.kind() != io::ErrorKind::WouldBlock
            {
                return Err(error);
            }
            if !self.session.is_handshaking() {
                return Ok(true);
            }
            match self.take_in() {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads ciphertext once; so many bytes of it.
    fn take_in(&mut self) -> io::Result<usize> {
        let taken = self.session.read_tls(&mut self.socket)?;
        if let Err(error) = self.session.process_new_packets() {
            // The server is told why, if there is room to tell it.
            let _ = self.flush();
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        Ok(taken)
    }

    /// Tells the server that the connection is over.
    pub(super) fn close(&mut self) -> io::Result<()> {
        self.session.send_close_notify();
        // The connection is over without the word, too.
        let _ = self.flush();
        self.socket.shutdown(Shutdown::Both)
    }
}

impl Read for EncryptedSocket {
    /// What does not fill the buffer has emptied the socket.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            let read = match self.session.reader().read(&mut buffer[filled..]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => match self.take_in() {
                    Ok(taken) if taken > 0 => continue,
                    ended => ended,
                },
                read => read,
            };
            match read {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

impl Write for EncryptedSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.flush()?;
        let taken = self.session.writer().write(bytes)?;
        match self.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Hands ciphertext to the system.
    fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.session.write_tls(&mut self.socket)?;
        }
        Ok(())
    }
}
