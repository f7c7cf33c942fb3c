package io.arioso;

import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The number of a native object, closed once: by its owner, or, when the owner was collected without being closed, behind it.
 * It is looked up with every call; a closed one is told as such and never followed.
 */
final class Handle implements Runnable {
    // Its thread is the only thing that keeps these classes loaded while something is open.
    private static final Cleaner CLEANER = Cleaner.create();

    private final AtomicLong number;
    private Cleaner.Cleanable cleanable;

    private Handle(long number) {
        this.number = new AtomicLong(number);
    }

    static Handle of(Object owner, long number) {
        Handle handle = new Handle(number);
        handle.cleanable = CLEANER.register(owner, handle);
        return handle;
    }

    /** The number; 0, which stands for nothing, once it is closed. */
    long number() {
        return number.get();
    }

    boolean isOpen() {
        return number.get() != 0;
    }

    /** Takes the number for closing. 0: somebody has taken it. */
    long take() {
        return number.getAndSet(0);
    }

    /** It is closed: the cleaner may forget it. */
    void forget() {
        cleanable.clean();
    }

    /** Closes it; nothing if somebody has taken it. */
    void close() {
        long taken = take();
        if (taken != 0) {
            try {
                Native.close(taken);
            } finally {
                forget();
            }
        }
    }

    /** The cleaner's last resort, on a thread that must not be held up. */
    @Override
    public void run() {
        long taken = take();
        if (taken != 0) {
            Native.closeLater(taken);
        }
    }
}
