//! The memory of answers that are made, or have not left, of all connections together.
//!
//! Invariant: what is taken is given back once the bytes are gone, however their connection ends.

use std::sync::atomic::{AtomicUsize, Ordering};

use http_body_util::Full;
use hyper::StatusCode;
use hyper::body::Bytes;

use super::response::{HttpResponse, PLAIN, UnsentAnswer, text};

/// All of them together: what is not read may cost the keys no more than this.
const BYTES_MOST: usize = 32 << 20;

/// An answer of no more is not counted: the number of connections bounds them, and health, figures
/// and refusals are told whatever others do not read.
const SMALL: usize = 256 << 10;

/// How many bytes are taken.
#[derive(Default)]
pub(crate) struct AnswerMemory(AtomicUsize);

/// Some of them.
pub(super) struct AnswerReservation {
    memory: &'static AnswerMemory,
    bytes: usize,
}

impl AnswerMemory {
    /// Takes nothing yet.
    pub(super) fn begin(&'static self) -> AnswerReservation {
        AnswerReservation { memory: self, bytes: 0 }
    }

    /// An answer that may leave; another one where there is no room for it.
    pub(super) fn admit(&'static self, answer: UnsentAnswer) -> HttpResponse {
        let mut taken = self.begin();
        let length = answer.body().len();
        if length <= SMALL {
            return answer.map(Full::new);
        }
        match taken.take(length) {
            true => answer.map(|bytes| Full::new(Bytes::from_owner(AnswerBody { bytes, taken }))),
            false => {
                let why = "Too many answers wait to be read.\n";
                text(StatusCode::SERVICE_UNAVAILABLE, PLAIN, why).map(Full::new)
            }
        }
    }
}

impl AnswerReservation {
    /// Takes so many more; `false` where there are not as many left.
    pub(super) fn take(&mut self, more: usize) -> bool {
        let take = |taken: usize| taken.checked_add(more).filter(|all| *all <= BYTES_MOST);
        let taken = self.memory.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.bytes += if taken { more } else { 0 };
        taken
    }
}

impl Drop for AnswerReservation {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The body of an answer, until it has left.
struct AnswerBody {
    bytes: Bytes,
    #[expect(dead_code, reason = "dropped with the bytes")]
    taken: AnswerReservation,
}

impl AsRef<[u8]> for AnswerBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use hyper::StatusCode;

    use super::{AnswerMemory, BYTES_MOST, SMALL};
    use crate::http::response::{PLAIN, text};

    #[test]
    fn answers_take_so_much_and_give_it_back() {
        let memory: &'static AnswerMemory = Box::leak(Box::default());
        let answer = |bytes: usize| memory.admit(text(StatusCode::OK, PLAIN, vec![b'x'; bytes]));
        let half = BYTES_MOST / 2;
        let held = [answer(half), answer(half)];
        assert!(held.iter().all(|it| it.status() == StatusCode::OK));
        assert_eq!(answer(SMALL + 1).status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer(SMALL).status(), StatusCode::OK, "health is told");
        drop(held);
        assert_eq!(answer(BYTES_MOST).status(), StatusCode::OK);
    }
}
