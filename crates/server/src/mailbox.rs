//! Where replies and wake-ups wait for a session. Filled under the engine's lock, so that a publisher's replies keep their
//! order; emptied by the session's own task. Bounded by what the session may have unanswered and by its subscriptions.

use std::sync::atomic::{AtomicBool, Ordering};

use arioso_journal::Reply;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Which session, which of its channels, and what is answered: packed into the mark that the ledger gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Address {
    /// The session.
    pub session: u32,
    /// The publisher's or request's channel.
    pub channel: u16,
    /// Which of the publishers that the channel stood for, one after another; counts around.
    pub tenant: u8,
    /// What the answer is to.
    pub about: About,
}

/// What an answer is to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum About {
    /// Messages.
    Publish = 0,
    /// An epoch that was opened.
    Open = 1,
    /// A number that was skipped to.
    Skip = 2,
    /// A publisher that was dropped.
    Drop = 3,
}

impl Address {
    /// As one number.
    pub fn pack(self) -> u64 {
        u64::from(self.session) << 32 | u64::from(self.channel) << 16 | u64::from(self.tenant) << 8 | self.about as u64
    }

    /// From one number.
    pub fn unpack(tag: u64) -> Address {
        let about = match tag & 0xff {
            0 => About::Publish,
            1 => About::Open,
            2 => About::Skip,
            3 => About::Drop,
            other => panic!("{other} is no kind of answer"),
        };
        Address {
            session: (tag >> 32) as u32,
            channel: (tag >> 16 & 0xffff) as u16,
            tenant: (tag >> 8 & 0xff) as u8,
            about,
        }
    }
}

/// What a session finds in its mailbox.
#[derive(Debug)]
pub enum Mail {
    /// An answer from the ledger.
    Reply(Address, Reply),
    /// Another holder opened this channel's publisher.
    Fenced {
        /// The channel.
        channel: u16,
    },
    /// The journal is lost; nothing more will be answered.
    Lost,
}

#[derive(Debug, Default)]
struct Waiting {
    mail: Vec<Mail>,
    /// Channels of subscriptions for which something was settled.
    ready: Vec<u16>,
}

/// One session's mailbox.
#[derive(Debug, Default)]
pub struct Mailbox {
    waiting: Mutex<Waiting>,
    pending: AtomicBool,
    notify: Notify,
}

impl Mailbox {
    /// Puts mail in; the owner is woken by [`Mailbox::wake`].
    pub fn put(&self, mail: Mail) {
        self.waiting.lock().mail.push(mail);
        self.pending.store(true, Ordering::Release);
    }

    /// Notes that a subscription has something to read.
    pub fn put_ready(&self, channel: u16) {
        self.waiting.lock().ready.push(channel);
        self.pending.store(true, Ordering::Release);
    }

    /// Wakes the owner if there is anything for it.
    pub fn wake(&self) {
        if self.pending.load(Ordering::Acquire) {
            self.notify.notify_one();
        }
    }

    /// Whether there is anything.
    pub fn is_pending(&self) -> bool {
        self.pending.load(Ordering::Acquire)
    }

    /// Takes everything out.
    pub fn take(&self, mail: &mut Vec<Mail>, ready: &mut Vec<u16>) {
        let mut waiting = self.waiting.lock();
        self.pending.store(false, Ordering::Release);
        mail.append(&mut waiting.mail);
        ready.append(&mut waiting.ready);
    }

    /// Completes when there may be something.
    pub async fn notified(&self) {
        self.notify.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_survives_packing() {
        for about in [About::Publish, About::Open, About::Skip, About::Drop] {
            let address = Address { session: 0xfedc_ba98, channel: 0x7654, tenant: 0x32, about };
            assert_eq!(Address::unpack(address.pack()), address);
        }
    }
}
