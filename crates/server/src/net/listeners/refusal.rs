//! What a client is told that is not let in.
//!
//! Invariant: one line, if the socket takes it at once; no thread waits for it to be read.

use socket2::SockRef;

use super::Protocol;
use crate::net::connection::RawStream;

const TOO_MANY: &[u8] = b"-ERR max number of clients reached\r\n";

const PROTECTED: &[u8] = b"-DENIED Redis is running in protected mode because protected mode is \
enabled and no password is set for the default user. In this mode connections are only accepted \
from the loopback interface. If you want to connect from external computers to Redis you may \
adopt one of the following solutions: 1) Just disable protected mode sending the command 'CONFIG \
SET protected-mode no' from the loopback interface by connecting to Redis from the same host the \
server is running, however MAKE SURE Redis is not publicly accessible from internet if you do \
so. Use CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the \
protected mode by editing the Redis configuration file, and setting the protected mode option to \
'no', and then restarting the server. 3) If you started the server manually just for testing, \
restart it with the '--protected-mode no' option. 4) Set up an authentication password for the \
default user. NOTE: You only need to do one of the above things in order for the server to start \
accepting connections from the outside.\r\n";

/// The same for clients of memcached.
const TOO_MANY_ITEMS: &[u8] = b"ERROR Too many open connections\r\n";
const PROTECTED_ITEMS: &[u8] =
    b"SERVER_ERROR the server is in protected mode: connections come from \
this machine only, until a password is set or protected-mode is off\r\n";

/// There are as many clients as there may be.
pub(super) fn too_many(stream: &mut RawStream, protocol: Protocol) {
    reject(stream, if protocol == Protocol::Redis { TOO_MANY } else { TOO_MANY_ITEMS });
}

/// The client comes from elsewhere, and no password is set.
pub(super) fn protected(stream: &mut RawStream, protocol: Protocol) {
    reject(stream, if protocol == Protocol::Redis { PROTECTED } else { PROTECTED_ITEMS });
}

fn reject(stream: &mut RawStream, line: &[u8]) {
    // The client is on its way out whether or not it reads why.
    let _ = match stream {
        RawStream::Tcp(stream) => SockRef::from(&*stream).send(line),
        RawStream::Unix(stream) => SockRef::from(&*stream).send(line),
        RawStream::Tls(stream) => stream.send_last(line),
    };
}
