//! The frame of UDP datagrams: eight bytes before each piece of a request or of its answer.
//!
//! Invariant: a request is one datagram. One that came in pieces is refused, so nobody makes us
//! keep anything.

/// The length of the frame.
pub const FRAME_LENGTH: usize = 8;

/// What the frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The client's own number for the request, which the answer repeats.
    pub request: u16,
    /// Which of the datagrams this is, from 0.
    pub sequence: u16,
    /// How many there are.
    pub count: u16,
}

impl Frame {
    /// The frame and what is behind it; `None` if the datagram is too short for one.
    pub fn split(datagram: &[u8]) -> Option<(Frame, &[u8])> {
        let (frame, payload) = datagram.split_first_chunk::<FRAME_LENGTH>()?;
        let short = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        Some((Frame { request: short(0), sequence: short(2), count: short(4) }, payload))
    }

    /// Whether all of the request is in this datagram.
    pub fn is_whole(&self) -> bool {
        self.sequence == 0 && self.count == 1
    }

    /// The bytes of the frame.
    pub fn to_bytes(&self) -> [u8; FRAME_LENGTH] {
        let mut bytes = [0; FRAME_LENGTH];
        bytes[0..2].copy_from_slice(&self.request.to_be_bytes());
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.count.to_be_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn frames_come_back() {
        let frame = Frame { request: 0x1234, sequence: 0, count: 1 };
        assert_eq!(frame.to_bytes(), [0x12, 0x34, 0, 0, 0, 1, 0, 0]);
        let datagram = [&frame.to_bytes()[..], b"version\r\n"].concat();
        assert_eq!(Frame::split(&datagram), Some((frame, &b"version\r\n"[..])));
        assert!(frame.is_whole());
        assert!(!Frame { count: 2, ..frame }.is_whole());
        assert!(!Frame { sequence: 1, ..frame }.is_whole());
        assert_eq!(Frame::split(&datagram[..7]), None);
    }
}
