//! The numbers that Java holds, and the path finders they stand for. A number is never used twice, so a stale one finds
//! nothing. What is closed while others ask ends with the last of them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use arioso_voyage::sea::router::Router;
use jni::sys::jlong;
use parking_lot::RwLock;

use crate::failure::{Failure, Result};

/// How many there are is up to who opens: Java closes what it opened.
static FINDERS: LazyLock<RwLock<HashMap<u64, Arc<Router>>>> = LazyLock::new(RwLock::default);
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Keeps a path finder; its number.
pub fn keep(router: Router) -> jlong {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    FINDERS.write().insert(number, Arc::new(router));
    number.cast_signed()
}

/// Forgets a number; one that is forgotten already is no mistake.
pub fn forget(number: jlong) {
    let forgotten = FINDERS.write().remove(&number.cast_unsigned());
    drop(forgotten); // outside of the lock: a network is large
}

/// The path finder of a number.
pub fn find(number: jlong) -> Result<Arc<Router>> {
    FINDERS.read().get(&number.cast_unsigned()).cloned().ok_or_else(Failure::closed)
}
