//! DER, as far as certificates and keys need it: a reader of tag, length and content.
//!
//! Invariant: what is returned lies within what was given; lengths are checked before use.

/// A place in DER.
#[derive(Clone, Copy)]
pub(crate) struct Der<'a>(&'a [u8]);

/// One value.
#[derive(Clone, Copy)]
pub(crate) struct Element<'a> {
    pub(crate) tag: u8,
    pub(crate) content: &'a [u8],
    /// With its tag and length.
    pub(crate) whole: &'a [u8],
}

/// Tags.
pub(crate) const BOOLEAN: u8 = 0x01;
pub(crate) const INTEGER: u8 = 0x02;
pub(crate) const OCTETS: u8 = 0x04;
pub(crate) const OID: u8 = 0x06;
pub(crate) const UTC_TIME: u8 = 0x17;
pub(crate) const SEQUENCE: u8 = 0x30;
pub(crate) const SET: u8 = 0x31;

impl<'a> Der<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next value, which is left behind.
    pub(crate) fn any(&mut self) -> Option<Element<'a>> {
        let (tag, short) = (*self.0.first()?, usize::from(*self.0.get(1)?));
        let (length, head) = match short {
            0..=0x7f => (short, 2),
            0x81..=0x84 => {
                let count = short - 0x80;
                let bytes = self.0.get(2..2 + count)?;
                let length = bytes.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte));
                (length, 2 + count)
            }
            _ => return None,
        };
        let whole = self.0.get(..head.checked_add(length)?)?;
        self.0 = &self.0[whole.len()..];
        Some(Element { tag, content: &whole[head..], whole })
    }

    /// The content of the next value, if it has this tag; else nothing is left behind.
    pub(crate) fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let before = *self;
        let element = self.any()?;
        if element.tag == tag {
            return Some(element.content);
        }
        *self = before;
        None
    }

    /// The same for what holds more values.
    pub(crate) fn enter(&mut self, tag: u8) -> Option<Der<'a>> {
        self.take(tag).map(Der)
    }
}

#[cfg(test)]
mod tests {
    use super::{Der, INTEGER, SEQUENCE};

    #[test]
    fn values_are_read_one_by_one() {
        let mut der = Der::new(&[0x30, 0x06, 0x02, 0x01, 0x07, 0x02, 0x01, 0x08, 0x04, 0x00]);
        assert!(der.take(INTEGER).is_none());
        let mut inner = der.enter(SEQUENCE).unwrap();
        assert_eq!(inner.take(INTEGER), Some(&[7][..]));
        assert_eq!(inner.take(INTEGER), Some(&[8][..]));
        assert!(inner.any().is_none());
        assert_eq!(der.any().unwrap().content, b"");
    }

    #[test]
    fn what_is_cut_or_lies_about_its_length_is_nothing() {
        let long = [&[0x04, 0x82, 0x01, 0x00][..], &[7; 256]].concat();
        assert_eq!(Der::new(&long).take(4).unwrap().len(), 256);
        for cut in 0..long.len() {
            assert!(Der::new(&long[..cut]).any().is_none(), "{cut}");
        }
        for liar in
            [&[0x04, 0x80][..], &[0x04, 0x85, 1, 1, 1, 1, 1], &[4, 0x84, 255, 255, 255, 255]]
        {
            assert!(Der::new(liar).any().is_none());
        }
    }
}
