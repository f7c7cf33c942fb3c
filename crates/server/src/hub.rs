//! Who is woken by a commit: only subscriptions that one of its topics matches, each once, and only if it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arioso_stream::filter::FilterSet;
use arioso_stream::matcher::{Matcher, MatcherLimits, SubscriptionId};
use arioso_stream::names::Names;
use arioso_stream::record::{CONTROL_TOPIC, Records};
use arioso_stream::topic::TopicId;

use crate::mailbox::Mailbox;

/// Shared between a subscription and the hub: set while the subscription has reached the end and waits.
#[derive(Debug)]
pub struct Bell {
    armed: AtomicBool,
    armed_count: Arc<AtomicUsize>,
}

impl Bell {
    /// From here on a matching commit wakes the session. To be followed by one more look at the end: what was settled before is
    /// not told.
    pub fn arm(&self) {
        if !self.armed.swap(true, Ordering::SeqCst) {
            self.armed_count.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether nothing that matches was committed since it was armed.
    pub fn is_armed(&self) -> bool {
        self.armed.load(Ordering::SeqCst)
    }

    /// No wake-up is wanted.
    pub fn disarm(&self) -> bool {
        let was = self.armed.swap(false, Ordering::SeqCst);
        if was {
            self.armed_count.fetch_sub(1, Ordering::SeqCst);
        }
        was
    }
}

struct Listener {
    mailbox: Arc<Mailbox>,
    channel: u16,
    bell: Arc<Bell>,
}

/// All subscriptions, asked by what was committed.
pub struct Hub {
    matcher: Matcher,
    listeners: Vec<Option<Listener>>,
    free: Vec<u32>,
    armed_count: Arc<AtomicUsize>,
    /// By topic: the commit that looked at it last.
    looked: Vec<u32>,
    commit: u32,
    matched: Vec<SubscriptionId>,
}

impl Hub {
    /// Without subscriptions.
    pub fn new(hash_seed: u64) -> Hub {
        Hub {
            matcher: Matcher::new(MatcherLimits::default(), hash_seed),
            listeners: Vec::new(),
            free: Vec::new(),
            armed_count: Arc::new(AtomicUsize::new(0)),
            looked: Vec::new(),
            commit: 0,
            matched: Vec::new(),
        }
    }

    /// Adds a subscription; refused when the filters of all together are too many.
    pub fn add(
        &mut self,
        filters: &FilterSet,
        mailbox: Arc<Mailbox>,
        channel: u16,
    ) -> arioso_stream::Result<(SubscriptionId, Arc<Bell>)> {
        let number = self.free.last().copied().unwrap_or(self.listeners.len() as u32);
        self.matcher.subscribe(SubscriptionId(number), filters)?;
        let bell = Arc::new(Bell { armed: AtomicBool::new(false), armed_count: Arc::clone(&self.armed_count) });
        let listener = Listener { mailbox, channel, bell: Arc::clone(&bell) };
        if self.free.pop().is_some() {
            self.listeners[number as usize] = Some(listener);
        } else {
            self.listeners.push(Some(listener));
        }
        Ok((SubscriptionId(number), bell))
    }

    /// Takes a subscription away.
    pub fn remove(&mut self, subscription: SubscriptionId) {
        self.matcher.unsubscribe(subscription);
        if let Some(listener) = self.listeners[subscription.0 as usize].take() {
            listener.bell.disarm();
            self.free.push(subscription.0);
        }
    }

    /// Subscriptions.
    pub fn len(&self) -> usize {
        self.listeners.len() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Records were settled: whoever waits for one of their topics is told once.
    pub fn committed(&mut self, names: &Names, records: &[u8], woken: &mut Vec<Arc<Mailbox>>) {
        if self.armed_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        self.commit = self.commit.wrapping_add(1);
        for record in Records::new(records) {
            let topic = record.expect("the sequencer built the batch").topic();
            if topic == CONTROL_TOPIC || !self.first_look(topic) {
                continue;
            }
            self.matched.clear();
            self.matcher.matches_id(names, TopicId(topic), &mut self.matched);
            for subscription in &self.matched {
                let listener =
                    self.listeners[subscription.0 as usize].as_ref().expect("the matcher knows who is there");
                if listener.bell.disarm() {
                    listener.mailbox.put_ready(listener.channel);
                    woken.push(Arc::clone(&listener.mailbox));
                }
            }
            if self.armed_count.load(Ordering::SeqCst) == 0 {
                return;
            }
        }
    }

    fn first_look(&mut self, topic: u32) -> bool {
        let index = topic as usize;
        if self.looked.len() <= index {
            self.looked.resize(index + 1, self.commit.wrapping_sub(1));
        }
        std::mem::replace(&mut self.looked[index], self.commit) != self.commit
    }
}
