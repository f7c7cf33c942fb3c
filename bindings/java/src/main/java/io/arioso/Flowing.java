package io.arioso;

import java.util.Objects;
import java.util.concurrent.Flow;
import java.util.concurrent.locks.Condition;
import java.util.concurrent.locks.ReentrantLock;

/** A publisher in the sense of {@link Flow}: each subscriber has a subscription and a daemon thread of its own. */
final class Flowing implements Flow.Publisher<Batch> {
    private final Bus bus;
    private final Subscribe wanted;

    Flowing(Bus bus, Subscribe wanted) {
        this.bus = bus;
        this.wanted = wanted;
    }

    @Override
    public void subscribe(Flow.Subscriber<? super Batch> subscriber) {
        Objects.requireNonNull(subscriber, "subscriber");
        Demand demand = new Demand();
        Thread thread = new Thread(() -> run(subscriber, demand), "arioso-flow");
        thread.setDaemon(true);
        thread.start();
    }

    private void run(Flow.Subscriber<? super Batch> subscriber, Demand demand) {
        Subscription subscription = null;
        BusException refused = null;
        try {
            subscription = bus.subscribe(wanted);
            demand.open(subscription);
        } catch (BusException exception) {
            refused = exception;
        }
        bus.whenClosed(demand);
        try (Subscription open = subscription) {
            subscriber.onSubscribe(demand);
            if (refused != null) {
                subscriber.onError(refused);
            } else {
                deliver(open, subscriber, demand);
            }
        } finally {
            bus.notWhenClosed(demand);
        }
    }

    private static void deliver(Subscription from, Flow.Subscriber<? super Batch> to, Demand demand) {
        while (demand.await()) {
            Batch batch;
            try {
                batch = from.next();
                // The subscriber may keep it as long as it likes.
                batch = batch == null ? null : batch.copy();
            } catch (BusException exception) {
                if (!demand.isCancelled()) {
                    to.onError(exception);
                }
                return;
            }
            if (batch == null) {
                to.onComplete();
                return;
            }
            if (demand.isCancelled()) {
                return;
            }
            to.onNext(batch);
        }
        RuntimeException wrong = demand.wrong();
        if (wrong != null) {
            to.onError(wrong);
        }
    }

    /** How many batches are asked for. Nothing is pulled from the bus before it is asked for. */
    private static final class Demand implements Flow.Subscription, Runnable {
        private final ReentrantLock lock = new ReentrantLock();
        private final Condition changed = lock.newCondition();
        private Subscription subscription;
        private long asked;
        private boolean cancelled;
        private RuntimeException wrong;

        void open(Subscription opened) {
            lock.lock();
            try {
                subscription = opened;
            } finally {
                lock.unlock();
            }
        }

        /** Waits until one is asked for, and takes it. False: nothing more is wanted. */
        boolean await() {
            lock.lock();
            try {
                while (asked == 0 && !cancelled && wrong == null) {
                    changed.awaitUninterruptibly();
                }
                if (cancelled || wrong != null) {
                    return false;
                }
                if (asked != Long.MAX_VALUE) {
                    asked--;
                }
                return true;
            } finally {
                lock.unlock();
            }
        }

        boolean isCancelled() {
            lock.lock();
            try {
                return cancelled;
            } finally {
                lock.unlock();
            }
        }

        RuntimeException wrong() {
            lock.lock();
            try {
                return cancelled ? null : wrong;
            } finally {
                lock.unlock();
            }
        }

        /** The bus is closed. */
        @Override
        public void run() {
            lock.lock();
            try {
                wrong = wrong == null ? BusException.closed("bus") : wrong;
                changed.signalAll();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void request(long count) {
            lock.lock();
            try {
                if (count <= 0) {
                    wrong = new IllegalArgumentException("request(" + count + "), at least 1 is wanted");
                } else {
                    asked = asked + count < 0 ? Long.MAX_VALUE : asked + count;
                }
                changed.signalAll();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void cancel() {
            Subscription opened;
            lock.lock();
            try {
                cancelled = true;
                opened = subscription;
                changed.signalAll();
            } finally {
                lock.unlock();
            }
            if (opened != null) {
                opened.close();
            }
        }
    }
}
