//! The numbers that Java holds, and what they stand for. A number is never used twice, so a stale one finds nothing.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use jni::sys::jlong;
use parking_lot::RwLock;

use crate::answers::Answers;
use crate::bus::OpenBus;
use crate::failure::{Failure, Result};
use crate::publishing::OpenPublisher;
use crate::subscribing::OpenSubscription;

/// What a number stands for.
#[derive(Clone, Debug)]
pub enum Object {
    Bus(Arc<OpenBus>),
    Publisher(Arc<OpenPublisher>),
    Subscription(Arc<OpenSubscription>),
    Answers(Arc<Answers>),
}

/// How many there are is up to who opens: each is an object that Java opened and has not closed.
static OBJECTS: LazyLock<RwLock<HashMap<u64, Object>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Keeps an object; returns its number.
pub fn keep(object: Object) -> u64 {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    OBJECTS.write().insert(number, object);
    number
}

/// Forgets a number. `None`: it was forgotten before.
pub fn forget(number: u64) -> Option<Object> {
    OBJECTS.write().remove(&number)
}

/// A number as Java is given it.
pub fn to_java(number: u64) -> jlong {
    number.cast_signed()
}

fn find(number: jlong) -> Option<Object> {
    OBJECTS.read().get(&number.cast_unsigned()).cloned()
}

/// Objects that are open.
pub fn count() -> usize {
    OBJECTS.read().len()
}

pub fn bus(number: jlong) -> Result<Arc<OpenBus>> {
    match find(number) {
        Some(Object::Bus(bus)) => Ok(bus),
        _ => Err(Failure::closed("bus")),
    }
}

pub fn publisher(number: jlong) -> Result<Arc<OpenPublisher>> {
    match find(number) {
        Some(Object::Publisher(publisher)) => Ok(publisher),
        _ => Err(Failure::closed("publisher")),
    }
}

pub fn subscription(number: jlong) -> Result<Arc<OpenSubscription>> {
    match find(number) {
        Some(Object::Subscription(subscription)) => Ok(subscription),
        _ => Err(Failure::closed("subscription")),
    }
}

/// The answers of a bus; they outlive it until all are taken.
pub fn answers(number: jlong) -> Result<Arc<Answers>> {
    match find(number) {
        Some(Object::Answers(answers)) => Ok(answers),
        _ => Err(Failure::closed("bus")),
    }
}
