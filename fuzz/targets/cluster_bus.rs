//! What a peer says on the bus of a cluster, of any bytes and in any pieces: little is kept, and
//! what is read is written as something that is read as the same.
#![no_main]

use cluster::{ReceivedPacket, Body, Limits, Packet, PacketReader, write_light_packet, write_packet};
use libfuzzer_sys::fuzz_target;

const LIMITS: Limits = Limits { nodes: 64, payload: 1 << 16 };

fuzz_target!(|data: &[u8]| {
    let Some((piece, stream)) = data.split_first() else { return };
    let mut reader = PacketReader::default();
    for bytes in stream.chunks(usize::from(*piece).max(1) * 16) {
        reader.feed(bytes);
        loop {
            match reader.next(LIMITS) {
                Ok(Some(ReceivedPacket::Packet(packet))) => comes_back(packet),
                Ok(Some(ReceivedPacket::Ignored(error))) => drop(error.to_string()),
                Ok(None) => break,
                Err(_) => return,
            }
        }
        assert!(reader.memory() <= 4 * stream.len() + 64);
    }
});

fn comes_back(mut packet: Box<Packet>) {
    if let Body::Ping(gossip) | Body::Pong(gossip) | Body::Meet(gossip) = &mut packet.body {
        gossip.extensions.unknown.clear();
        gossip.is_dropped = false;
    }
    let bytes = match &mut packet.header {
        Some(header) => {
            header.message.supports_extensions = true;
            write_packet(header, &packet.body)
        }
        None => write_light_packet(&packet.body).expect("the packet came under a light header"),
    };
    let mut reader = PacketReader::default();
    reader.feed(&bytes);
    let again = reader.next(Limits { nodes: 1 << 16, payload: 1 << 20 });
    assert_eq!(again, Ok(Some(ReceivedPacket::Packet(packet))));
}
