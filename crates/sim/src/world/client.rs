//! A client: the state machine that ships, and what its application keeps.

use std::collections::VecDeque;
use std::time::Duration;

use arioso_client::{Batch, Connection, Options, PublisherId, SubscriptionId};

use crate::follow::Follow;
use crate::model::Uid;

/// One client of the run.
pub struct Client {
    /// Its side of the bus.
    pub machine: Connection,
    /// The connection it has.
    pub link: Option<u32>,
    /// It began anew so often.
    pub births: u32,
    /// Bytes of an earlier connection may have arrived behind those of a later one: its own older open may have taken a publisher
    /// away from it.
    pub stale: bool,
    /// It does not read its socket until then.
    pub stalled_until: u64,
    /// When it is looked after next.
    pub wake_at: u64,
    /// Its publishers.
    pub publishers: Vec<Publisher>,
    /// Its subscriptions.
    pub follows: Vec<Following>,
    /// Requests that wait for an answer.
    pub requests: usize,
}

/// A publisher as its application sees it.
pub struct Publisher {
    /// Its number in the machine.
    pub id: PublisherId,
    /// Its name; empty: anonymous.
    pub name: String,
    /// Whose order it keeps.
    pub series: u32,
    /// Its application's book, where it keeps one.
    pub book: Option<usize>,
    /// What is not answered, in order.
    pub waiting: VecDeque<Uid>,
    /// It takes nothing more.
    pub closing: bool,
}

/// What an application notes of a publisher over its own restarts: the message of each publisher sequence from 1 on.
#[derive(Default)]
pub struct Book {
    /// The publisher's name.
    pub name: String,
    /// Whose order it keeps.
    pub series: u32,
    /// The messages.
    pub messages: Vec<Uid>,
    /// How many are answered.
    pub answered: usize,
    /// Messages that are in the book but not with the machine: sent again after a restart.
    pub unsent: VecDeque<Uid>,
}

/// How fast a subscription's messages are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// At once.
    Fast,
    /// A batch now and then.
    Slow,
    /// Not at all.
    Stuck,
}

/// A subscription as its application sees it.
pub struct Following {
    /// Its number in the machine.
    pub id: SubscriptionId,
    /// What it got.
    pub follow: Follow,
    /// What it was made with: a time, where it begins at one.
    pub time: Option<i64>,
    /// How fast it is.
    pub pace: Pace,
    /// Batches that wait for the application.
    pub waiting: VecDeque<Batch>,
    /// Bytes of credit.
    pub credit_bytes: u64,
    /// It ends by itself, behind this.
    pub until: Option<u64>,
    /// It was to end by itself.
    pub until_end: bool,
    /// It ended, or the application is done with it.
    pub over: bool,
}

impl Client {
    /// A client that will dial at once.
    pub fn new(number: usize, births: u32, seed: u64, now: u64) -> Client {
        let options = Options {
            name: format!("client-{number}-{births}"),
            connect_timeout: Duration::from_secs(1 << 20),
            unreachable_after: None,
            backoff_min: Duration::from_millis(5),
            backoff_max: Duration::from_millis(300),
            ..Options::default()
        };
        let machine = Connection::new(options, seed, Duration::from_nanos(now)).expect("the name is short");
        Client {
            machine,
            link: None,
            births,
            stale: births > 0,
            stalled_until: 0,
            wake_at: u64::MAX,
            publishers: Vec::new(),
            follows: Vec::new(),
            requests: 0,
        }
    }

    /// The publisher with this number in the machine.
    pub fn publisher(&mut self, id: PublisherId) -> Option<&mut Publisher> {
        self.publishers.iter_mut().find(|publisher| publisher.id == id)
    }

    /// The subscription with this number in the machine.
    pub fn following(&mut self, id: SubscriptionId) -> Option<&mut Following> {
        self.follows.iter_mut().find(|following| following.id == id)
    }
}
