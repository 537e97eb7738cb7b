//! A client's encrypted connection over whatever is read and written, for threads that wait.
//!
//! Invariants: no plaintext leaves before the peer has shown a certificate that is trusted; what
//! `flush` says has left has left as ciphertext, so a call that the transport cuts short loses
//! nothing and is gone on with by the next one.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::Arc;

use rustls::{ClientConfig, ClientConnection, StreamOwned};

use crate::sessions::{Fault, peer_name};

/// The connection.
pub struct BlockingStream<T: Read + Write>(StreamOwned<ClientConnection, T>);

impl<T: Read + Write> BlockingStream<T> {
    /// One with a server that was connected to. The peers agree by [`Self::advance_handshake`].
    pub fn connect(context: &Arc<ClientConfig>, transport: T) -> Result<Self, Fault> {
        let session = ClientConnection::new(Arc::clone(context), peer_name()?)?;
        Ok(Self(StreamOwned::new(session, transport)))
    }

    /// Sends what is to be sent and, where the peers have not agreed then, reads once: whether they
    /// have.
    pub fn advance_handshake(&mut self) -> io::Result<bool> {
        let StreamOwned { conn, sock } = &mut self.0;
        while conn.wants_write() {
            conn.write_tls(sock)?;
        }
        if !conn.is_handshaking() {
            return Ok(true);
        }
        if conn.read_tls(sock)? == 0 {
            return Err(ErrorKind::UnexpectedEof.into());
        }
        if let Err(fault) = conn.process_new_packets() {
            // The peer is told why, if it listens; the fault is what counts.
            let _ = conn.write_tls(sock);
            return Err(io::Error::new(ErrorKind::InvalidData, fault));
        }
        Ok(false)
    }

    /// What carries the ciphertext.
    pub fn transport(&self) -> &T {
        &self.0.sock
    }
}

impl<T: Read + Write> Read for BlockingStream<T> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

impl<T: Read + Write> Write for BlockingStream<T> {
    fn write(&mut self, plain: &[u8]) -> io::Result<usize> {
        self.0.write(plain)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}
