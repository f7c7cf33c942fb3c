//! Waiting on Java's threads: for a future, or until something can be polled again or is closed.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Condvar, Mutex};

/// A bell: rung by whoever has news, heard once by one who waits.
#[derive(Debug, Default)]
pub struct Bell {
    rung: Mutex<bool>,
    heard: Condvar,
}

impl Bell {
    /// There is news.
    pub fn ring(&self) {
        *self.rung.lock() = true;
        self.heard.notify_one();
    }

    /// Waits until there is.
    pub fn wait(&self) {
        let mut rung = self.rung.lock();
        while !*rung {
            self.heard.wait(&mut rung);
        }
        *rung = false;
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.ring();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.ring();
    }
}

/// Runs a future on this thread. The client's futures need no runtime around them: their work is done by the bus's own.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        bell.wait();
    }
}
