//! The notices among what waits to be sent to a client: others bring them upon it.
//!
//! Invariant: no more is counted than is unsent up to the last notice, and all that are unsent are.

use proto::Output;

/// The notices in a client's output.
#[derive(Default)]
pub struct UnsentInvalidations {
    /// Those since the output last held none.
    bytes: u64,
    /// Where the last of them ends in the output.
    until: u64,
}

impl UnsentInvalidations {
    /// What was appended to the output from this place on are notices.
    pub(crate) fn record(&mut self, begun: u64, output: &Output) {
        let is_another = begun < self.until;
        if is_another || output.consumed() >= self.until {
            self.bytes = 0;
        }
        self.until = output.appended();
        self.bytes += self.until.saturating_sub(begun);
    }

    /// How many bytes of notices are unsent, at most.
    pub fn bytes(&self, output: &Output) -> u64 {
        let left = self.until.saturating_sub(output.consumed());
        self.bytes.min(left).min(output.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use proto::{Output, Reply, Resp};

    use super::UnsentInvalidations;

    fn append(output: &mut Output, bytes: usize) -> u64 {
        let begun = output.appended();
        Reply::new(output, Resp::Three).bulk(&vec![b'x'; bytes]);
        begun
    }

    #[test]
    fn replies_do_not_count_and_notices_do_until_they_have_left() {
        let (mut output, mut unsent) = (Output::new(), UnsentInvalidations::default());
        append(&mut output, 1000);
        assert_eq!(unsent.bytes(&output), 0);
        let begun = append(&mut output, 100);
        unsent.record(begun, &output);
        let notice = output.appended() - begun;
        append(&mut output, 1000);
        assert_eq!(unsent.bytes(&output), notice);
        let begun = append(&mut output, 100);
        unsent.record(begun, &output);
        assert_eq!(unsent.bytes(&output), 2 * notice);
        output.consume(output.len() - 10);
        assert_eq!(unsent.bytes(&output), 10);
        output.consume(10);
        assert_eq!(unsent.bytes(&output), 0);
        let begun = append(&mut output, 100);
        unsent.record(begun, &output);
        assert_eq!(unsent.bytes(&output), notice);
    }

    #[test]
    fn another_output_begins_anew() {
        let (mut output, mut unsent) = (Output::new(), UnsentInvalidations::default());
        let begun = append(&mut output, 1000);
        unsent.record(begun, &output);
        let mut other = Output::new();
        let begun = append(&mut other, 100);
        unsent.record(begun, &other);
        assert_eq!(unsent.bytes(&other), other.appended());
    }
}
