//! Memory for records read from stores: a bounded sum, given out in the order of asking. Whoever waits is woken when it is its
//! turn; whoever has some gives it back when it has left the span, or after a while if others wait.
//!
//! ```text
//!   ask ──▶ fits, and nobody waits ──▶ granted ──▶ dropped ──▶ the next that fit are granted, and woken
//!     └───▶ queue ─────────────────────▲
//! ```

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::mailbox::Mailbox;

/// Who is to be woken.
#[derive(Clone, Debug)]
pub struct Waiter {
    /// The session's mailbox.
    pub mailbox: Arc<Mailbox>,
    /// The subscription's channel.
    pub channel: u16,
}

struct Asked {
    id: u64,
    bytes: u64,
    waiter: Waiter,
}

#[derive(Default)]
struct State {
    held: u64,
    next_id: u64,
    granted: HashSet<u64>,
    queue: VecDeque<Asked>,
}

/// The memory.
pub struct Admission {
    bytes_max: u64,
    state: Mutex<State>,
}

/// A share of it, granted or waited for; given back when dropped.
pub struct Permit {
    admission: Arc<Admission>,
    id: u64,
    bytes: u64,
}

impl Admission {
    /// So much in all. One that asks for more is granted when it is alone.
    pub fn new(bytes_max: u64) -> Arc<Admission> {
        Arc::new(Admission { bytes_max, state: Mutex::new(State::default()) })
    }

    /// Asks for a share.
    pub fn ask(self: &Arc<Admission>, bytes: u64, waiter: &Waiter) -> Permit {
        let mut state = self.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.queue.push_back(Asked { id, bytes, waiter: waiter.clone() });
        self.grant(&mut state, Some(id));
        Permit { admission: Arc::clone(self), id, bytes }
    }

    /// Grants what fits, in order. Who asks just now need not be woken.
    fn grant(&self, state: &mut State, asking: Option<u64>) {
        loop {
            let State { held, queue, .. } = state;
            let fits = |asked: &mut Asked| *held == 0 || held.saturating_add(asked.bytes) <= self.bytes_max;
            let Some(asked) = queue.pop_front_if(fits) else { return };
            state.held += asked.bytes;
            state.granted.insert(asked.id);
            if asking != Some(asked.id) {
                asked.waiter.mailbox.put_ready(asked.waiter.channel);
                asked.waiter.mailbox.wake();
            }
        }
    }

    /// Whether somebody waits.
    pub fn is_wanted(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }

    /// Bytes given out.
    pub fn held(&self) -> u64 {
        self.state.lock().held
    }
}

impl Permit {
    /// Whether it was granted.
    pub fn is_granted(&self) -> bool {
        self.admission.state.lock().granted.contains(&self.id)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.admission.state.lock();
        if state.granted.remove(&self.id) {
            state.held -= self.bytes;
        } else {
            state.queue.retain(|asked| asked.id != self.id);
        }
        self.admission.grant(&mut state, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(channel: u16) -> Waiter {
        Waiter { mailbox: Arc::new(Mailbox::default()), channel }
    }

    #[test]
    fn memory_is_granted_in_the_order_of_asking_and_never_more_than_there_is() {
        let admission = Admission::new(100);
        let first = admission.ask(60, &waiter(1));
        let (large, small) = (waiter(2), waiter(3));
        let second = admission.ask(70, &large);
        let third = admission.ask(10, &small);
        assert!(first.is_granted() && !second.is_granted() && !third.is_granted());
        assert!(admission.is_wanted() && admission.held() == 60);
        drop(first);
        assert!(second.is_granted() && third.is_granted() && admission.held() == 80);
        assert!(large.mailbox.is_pending() && small.mailbox.is_pending());
        drop((second, third));
        assert!(admission.held() == 0 && !admission.is_wanted());
    }

    #[test]
    fn one_that_asks_for_more_than_there_is_gets_it_alone() {
        let admission = Admission::new(100);
        let small = admission.ask(1, &waiter(1));
        let huge = admission.ask(1_000, &waiter(2));
        assert!(!huge.is_granted());
        drop(small);
        assert!(huge.is_granted());
        let next = admission.ask(1, &waiter(3));
        assert!(!next.is_granted());
        drop(huge);
        assert!(next.is_granted());
    }

    #[test]
    fn one_that_goes_while_it_waits_holds_nobody_up() {
        let admission = Admission::new(100);
        let first = admission.ask(60, &waiter(1));
        let waiting = admission.ask(70, &waiter(2));
        let behind = admission.ask(40, &waiter(3));
        assert!(!behind.is_granted());
        drop(waiting);
        assert!(behind.is_granted());
        drop((first, behind));
        assert_eq!(admission.held(), 0);
    }
}
