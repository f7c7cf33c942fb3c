//! An open bus and its gate: who calls is inside, who closes lets nobody in, sends those inside home and waits for them.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use arioso::{Bus, Options, Settings, Subscribe, setting};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use crate::answers::Answers;
use crate::failure::{Failure, Result};
use crate::objects::{self, Object};
use crate::publishing::OpenPublisher;
use crate::subscribing::OpenSubscription;
use crate::wait::block_on;

/// A bus that Java opened.
#[derive(Debug)]
pub struct OpenBus {
    /// Held for reading by every call as long as it lasts; taken out, with nobody inside, by the one who closes.
    gate: RwLock<Option<Bus>>,
    /// Numbers of publishers and subscriptions, closed with it. `None`: it is being closed, nothing more is opened.
    children: Mutex<Option<HashSet<u64>>>,
    answers: Arc<Answers>,
}

/// A call that is inside.
#[derive(Debug)]
pub struct Inside<'a>(RwLockReadGuard<'a, Option<Bus>>);

impl std::ops::Deref for Inside<'_> {
    type Target = Bus;

    fn deref(&self) -> &Bus {
        match &*self.0 {
            Some(bus) => bus,
            None => unreachable!("OpenBus::enter lets nobody in without one"),
        }
    }
}

/// How a connected bus behaves. A zero leaves the default.
#[derive(Clone, Debug, Default)]
pub struct Connecting {
    pub name: String,
    pub connect_timeout_ms: u64,
    pub unreachable_after_ms: u64,
}

/// Opens the bus in a directory with settings by name.
pub fn open(dir: &str, settings: &[(String, String)]) -> Result<u64> {
    let mut all = Settings { data: dir.into(), ..Settings::default() };
    for (name, value) in settings {
        let row = setting(name)
            .ok_or_else(|| Failure::argument(format!("there is no setting {name:?}; docs/operating.md lists them")))?;
        row.set(&mut all, value, "Bus.open").map_err(|error| Failure::argument(error.to_string()))?;
    }
    Ok(keep(Bus::open_with(all)?))
}

/// Connects to a server.
pub fn connect(address: &str, connecting: &Connecting) -> Result<u64> {
    let mut options = Options::default();
    if !connecting.name.is_empty() {
        options.name.clone_from(&connecting.name);
    }
    if connecting.connect_timeout_ms > 0 {
        options.connect_timeout = Duration::from_millis(connecting.connect_timeout_ms);
    }
    if connecting.unreachable_after_ms > 0 {
        options.unreachable_after = Some(Duration::from_millis(connecting.unreachable_after_ms));
    }
    Ok(keep(Bus::connect_with(address, options)?))
}

fn keep(bus: Bus) -> u64 {
    objects::keep(Object::Bus(Arc::new(OpenBus {
        gate: RwLock::new(Some(bus)),
        children: Mutex::new(Some(HashSet::new())),
        answers: Arc::default(),
    })))
}

impl OpenBus {
    /// Lets a call in, which keeps the bus open until it leaves.
    pub fn enter(&self) -> Result<Inside<'_>> {
        let gate = self.gate.read();
        if gate.is_none() {
            return Err(Failure::closed("bus"));
        }
        Ok(Inside(gate))
    }

    /// Where the answers of its publishers arrive.
    pub fn answers(&self) -> &Arc<Answers> {
        &self.answers
    }

    /// Opens a publisher; `first` is 0 or the publisher sequence of its first message.
    pub fn publisher(self: &Arc<Self>, name: Option<&str>, first: u64) -> Result<u64> {
        let bus = self.enter()?;
        let publisher = match (name, first) {
            (None | Some(""), 0) => bus.publisher(None)?,
            (Some(name), 0) => bus.publisher(Some(name))?,
            (Some(name), first) if !name.is_empty() => bus.publisher_at(name, first)?,
            _ => {
                return Err(Failure::argument("a first publisher sequence is given, which only a named publisher has"));
            }
        };
        drop(bus);
        self.adopt(Object::Publisher(Arc::new(OpenPublisher::new(self, publisher))))
    }

    /// Opens a subscription.
    pub fn subscribe(self: &Arc<Self>, subscribe: Subscribe) -> Result<u64> {
        let bus = self.enter()?;
        let subscription = bus.subscribe_with(subscribe)?;
        drop(bus);
        self.adopt(Object::Subscription(Arc::new(OpenSubscription::new(self, subscription))))
    }

    /// Keeps a child, unless the bus was closed meanwhile.
    fn adopt(&self, object: Object) -> Result<u64> {
        let mut children = self.children.lock();
        let Some(children) = &mut *children else { return Err(Failure::closed("bus")) };
        let number = objects::keep(object);
        children.insert(number);
        Ok(number)
    }

    /// A child was closed on its own.
    pub fn disown(&self, number: u64) {
        if let Some(children) = &mut *self.children.lock() {
            children.remove(&number);
        }
    }

    /// Closes everything. What was published is answered before; calls that wait inside end.
    fn close(&self) -> Result<()> {
        let children = self.children.lock().take();
        for number in children.into_iter().flatten() {
            if let Some(Object::Subscription(subscription)) = objects::forget(number) {
                subscription.stop();
            }
        }
        let client = match self.enter() {
            Ok(bus) => bus.client().clone(),
            Err(_) => return Ok(()),
        };
        let closed = block_on(client.close());
        // Whoever waited inside for an answer, for room or for messages has it now, or the error `closed`.
        let bus = self.gate.write().take();
        self.answers.end();
        if let Some(bus) = bus {
            bus.close()?;
        }
        Ok(closed?)
    }
}

/// Closes what a number stands for. Once closed there is nothing left to do.
pub fn close(number: u64) -> Result<()> {
    match objects::forget(number) {
        None => Ok(()),
        Some(Object::Bus(bus)) => bus.close(),
        Some(Object::Publisher(publisher)) => {
            publisher.bus().disown(number);
            publisher.flush()
        }
        Some(Object::Subscription(subscription)) => {
            subscription.bus().disown(number);
            subscription.stop();
            Ok(())
        }
        Some(Object::Answers(_)) => Ok(()),
    }
}

/// As [`close`], on a thread of its own: for the thread that cleans up behind the garbage collector.
pub fn close_later(number: u64) -> Result<()> {
    let closing = std::thread::Builder::new().name("arioso-close".into());
    let begun = closing.spawn(move || {
        // There is nobody to tell: the owner was collected.
        let _ = close(number);
    });
    begun.map(|_| ()).map_err(|error| Failure::from(arioso::Error::from(error)))
}
