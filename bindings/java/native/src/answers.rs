//! Answers on their way to Java: the receipts of one bus, taken many at a time by the one thread of Java that waits here.
//!
//! ```text
//! lane of a publisher: token, receipt │ token, receipt │ …     in the order sent, which is the order answered
//!        └─ its first receipt was filled ──▶ ready lanes ──▶ next(): whole answers into one buffer
//! ```
//! A lane is in `ready` at most once, so `ready` is as long as there are publishers. How many receipts wait is bounded by
//! Java, which gives a publisher a number of permits.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use arioso::{Ack, AckLevel, Receipt};
use parking_lot::{Condvar, Mutex};

use crate::failure::Failure;

/// An answer without its text.
pub const ANSWER_BYTES: usize = 40;
/// Text of an error that is passed on; a longer one is cut.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// The least room that makes progress certain.
pub const ROOM_BYTES_MIN: usize = ANSWER_BYTES + TEXT_BYTES_MAX;

#[derive(Debug, Default)]
struct Ready {
    lanes: VecDeque<Arc<Lane>>,
    /// Nothing is sent any more and every receipt is filled.
    over: bool,
}

/// The answers of one bus.
#[derive(Debug, Default)]
pub struct Answers {
    ready: Mutex<Ready>,
    news: Condvar,
}

/// What one publisher sent and was not told about yet.
#[derive(Debug)]
pub struct Lane {
    waiting: Mutex<VecDeque<(u64, Receipt)>>,
    is_ready: AtomicBool,
    answers: Arc<Answers>,
}

/// The first 40 bytes of an answer: token, code, text bytes, then by code: first, last and messages, or details.
pub fn put_answer(out: &mut [u8], token: u64, outcome: &Result<Ack, Failure>) -> usize {
    let mut fields = [token, 0, 0, 0, 0];
    let mut text: &[u8] = &[];
    match outcome {
        Ok(ack) => {
            let level = u64::from(ack.level == AckLevel::Sequenced);
            fields[2..].copy_from_slice(&[ack.sequence.0, ack.last.0, level << 32 | u64::from(ack.messages)]);
        }
        Err(failure) => {
            text = &failure.text.as_bytes()[..failure.text.floor_char_boundary(TEXT_BYTES_MAX)];
            let code = failure.code.cast_unsigned();
            fields[1] = (text.len() as u64) << 32 | u64::from(code);
            fields[2..4].copy_from_slice(&[failure.a, failure.b]);
        }
    }
    for (slot, field) in out.chunks_exact_mut(8).zip(fields) {
        slot.copy_from_slice(&field.to_le_bytes());
    }
    out[ANSWER_BYTES..ANSWER_BYTES + text.len()].copy_from_slice(text);
    ANSWER_BYTES + text.len()
}

impl Answers {
    /// Writes the answers that are there, at least one; waits for it. `None`: there will be none any more.
    pub fn next(&self, out: &mut [u8]) -> Option<usize> {
        loop {
            let lane = {
                let mut ready = self.ready.lock();
                loop {
                    if let Some(lane) = ready.lanes.pop_front() {
                        break lane;
                    }
                    if ready.over {
                        return None;
                    }
                    self.news.wait(&mut ready);
                }
            };
            let written = lane.take(out);
            if written > 0 {
                return Some(written);
            }
        }
    }

    /// Nothing is sent any more and every receipt is filled: `next` ends when they are taken.
    pub fn end(&self) {
        self.ready.lock().over = true;
        self.news.notify_all();
    }
}

impl Lane {
    pub fn new(answers: &Arc<Answers>) -> Arc<Lane> {
        let answers = Arc::clone(answers);
        Arc::new(Lane { waiting: Mutex::default(), is_ready: AtomicBool::new(false), answers })
    }

    /// Waits for a receipt in its turn. To be called in the order of sending.
    pub fn push(self: &Arc<Self>, token: u64, receipt: Receipt) {
        let first = {
            let mut waiting = self.waiting.lock();
            waiting.push_back((token, receipt));
            waiting.len() == 1
        };
        if first {
            self.wake_by_ref();
        }
    }

    fn take(self: &Arc<Self>, out: &mut [u8]) -> usize {
        // Before it is polled: a receipt filled after that makes the lane ready again.
        self.is_ready.store(false, Ordering::SeqCst);
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let mut written = 0;
        let mut waiting = self.waiting.lock();
        while let Some((token, receipt)) = waiting.front_mut() {
            if out.len() - written < ROOM_BYTES_MIN {
                self.wake_by_ref();
                break;
            }
            let Poll::Ready(outcome) = Pin::new(receipt).poll(&mut context) else { break };
            written += put_answer(&mut out[written..], *token, &outcome.map_err(Failure::from));
            waiting.pop_front();
        }
        written
    }
}

impl Wake for Lane {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.is_ready.swap(true, Ordering::SeqCst) {
            self.answers.ready.lock().lanes.push_back(Arc::clone(self));
            self.answers.news.notify_one();
        }
    }
}

#[cfg(test)]
mod tests {
    use arioso::{Bus, Message};

    use super::*;

    fn token(out: &[u8]) -> u64 {
        u64::from_le_bytes(out[..8].try_into().unwrap())
    }

    #[test]
    fn answers_come_in_the_order_of_sending_and_end_behind_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let bus = Bus::open(dir.path()).unwrap();
        let publisher = bus.publisher(None).unwrap();
        let answers = Arc::new(Answers::default());
        let lane = Lane::new(&answers);
        for number in 0..100 {
            lane.push(number, publisher.send("a/b", Message::new(b"x")).unwrap());
        }
        publisher.flush();
        answers.end();
        let mut got = Vec::new();
        let mut out = vec![0; ROOM_BYTES_MIN + 100];
        while let Some(written) = answers.next(&mut out) {
            assert_eq!(written % ANSWER_BYTES, 0, "no answer has a text");
            got.extend(out[..written].chunks(ANSWER_BYTES).map(token));
        }
        assert_eq!(got, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn an_error_passes_on_its_number_and_a_text_of_bounded_length() {
        let mut out = vec![0; ROOM_BYTES_MIN];
        let failure = Failure { code: -7, a: 3, b: 9, text: "ä".repeat(TEXT_BYTES_MAX) };
        let written = put_answer(&mut out, 5, &Err(failure));
        assert_eq!(written, ROOM_BYTES_MIN);
        assert_eq!(i32::from_le_bytes(out[8..12].try_into().unwrap()), -7);
        assert_eq!(token(&out[16..]), 3);
    }
}
