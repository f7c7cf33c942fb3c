//! What each channel stands for, and which of them have something to send.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use arioso_wire::CHANNEL_MAX;

use super::publisher::Publisher;
use super::request::Request;
use super::subscription::Subscription;
use crate::{Error, Result};

/// Channels that rest after their end before the first of them is used again: a frame of its last user may still be under way,
/// an open that crossed its error for one, and would be taken for the next user's.
const RESTING: usize = 64;

#[derive(Debug)]
pub(crate) enum Role {
    Publisher(Publisher),
    Subscription(Subscription),
    Request(Request),
}

/// When somebody has something to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    No,
    At(Duration),
    Now,
}

#[derive(Debug, Default)]
struct Channel {
    role: Option<Box<Role>>,
    /// Whether it stands in `ready`.
    ready: bool,
    /// Where it stands in `timers`.
    timer: Option<Duration>,
}

#[derive(Debug, Default)]
pub(crate) struct Channels {
    /// Channel n stands at n - 1.
    channels: Vec<Channel>,
    /// Used and free again, the longest first.
    free: VecDeque<u16>,
    ready: VecDeque<u16>,
    timers: BTreeSet<(Duration, u16)>,
}

impl Channels {
    /// A channel nobody uses; `role` is told its number.
    pub(crate) fn add(&mut self, role: impl FnOnce(u16) -> Role) -> Result<u16> {
        let is_full = self.channels.len() >= CHANNEL_MAX as usize;
        let rested = if self.free.len() > RESTING || is_full { self.free.pop_front() } else { None };
        let channel = match rested {
            Some(channel) => channel,
            None => {
                let next = u16::try_from(self.channels.len() + 1).unwrap_or(u16::MAX);
                if next > CHANNEL_MAX {
                    return Err(Error::TooLarge {
                        what: "a client, in publishers, subscriptions and requests,",
                        count: next.into(),
                        count_max: CHANNEL_MAX.into(),
                    });
                }
                self.channels.push(Channel::default());
                next
            }
        };
        self.channels[channel as usize - 1].role = Some(Box::new(role(channel)));
        Ok(channel)
    }

    /// Whether a channel was used and is free again.
    pub(crate) fn rests(&self, channel: u16) -> bool {
        let at = (channel as usize).checked_sub(1);
        at.and_then(|at| self.channels.get(at)).is_some_and(|channel| channel.role.is_none())
    }

    pub(crate) fn get(&self, channel: u16) -> Option<&Role> {
        let at = (channel as usize).checked_sub(1)?;
        self.channels.get(at)?.role.as_deref()
    }

    pub(crate) fn get_mut(&mut self, channel: u16) -> Option<&mut Role> {
        let at = (channel as usize).checked_sub(1)?;
        self.channels.get_mut(at)?.role.as_deref_mut()
    }

    /// Every channel in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = u16> + use<> {
        let used = |(at, channel): (usize, &Channel)| {
            let number = u16::try_from(at + 1).ok()?;
            channel.role.is_some().then_some(number)
        };
        let used: Vec<u16> = self.channels.iter().enumerate().filter_map(used).collect();
        used.into_iter()
    }

    /// Gives the channel back.
    pub(crate) fn remove(&mut self, channel: u16) {
        let Some(entry) = self.channels.get_mut(channel as usize - 1) else {
            return;
        };
        if entry.role.take().is_some() {
            if let Some(at) = entry.timer.take() {
                self.timers.remove(&(at, channel));
            }
            self.free.push_back(channel);
        }
    }

    /// Remembers when a channel has something to send.
    pub(crate) fn wake(&mut self, channel: u16, wake: Wake) {
        let entry = &mut self.channels[channel as usize - 1];
        if wake == Wake::Now {
            if !entry.ready {
                entry.ready = true;
                self.ready.push_back(channel);
            }
            return;
        }
        let timer = match wake {
            Wake::At(at) => Some(at),
            _ => None,
        };
        if entry.timer != timer {
            if let Some(at) = entry.timer {
                self.timers.remove(&(at, channel));
            }
            if let Some(at) = timer {
                self.timers.insert((at, channel));
            }
            entry.timer = timer;
        }
    }

    /// The next channel that has something to send. It may have changed its mind.
    pub(crate) fn next_ready(&mut self) -> Option<u16> {
        let channel = self.ready.pop_front()?;
        self.channels[channel as usize - 1].ready = false;
        Some(channel)
    }

    /// A channel whose time has come.
    pub(crate) fn next_due(&mut self, now: Duration) -> Option<u16> {
        let (at, channel) = *self.timers.first()?;
        if at > now {
            return None;
        }
        self.timers.pop_first();
        self.channels[channel as usize - 1].timer = None;
        Some(channel)
    }

    pub(crate) fn next_timer(&self) -> Option<Duration> {
        self.timers.first().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SubscriptionId;
    use crate::machine::subscription::Subscribe;

    #[test]
    fn a_channel_is_used_again_when_so_many_others_were_freed_behind_it() {
        let mut channels = Channels::default();
        let add = |channels: &mut Channels| {
            channels
                .add(|channel| Role::Subscription(Subscription::new(SubscriptionId(channel), Subscribe::new(["a"]))))
                .unwrap()
        };
        let first = add(&mut channels);
        channels.remove(first);
        for _ in 0..RESTING {
            let other = add(&mut channels);
            assert_ne!(other, first);
            assert!(channels.rests(first));
            channels.remove(other);
        }
        assert_eq!(add(&mut channels), first);
        assert!(!channels.rests(first));
    }
}
