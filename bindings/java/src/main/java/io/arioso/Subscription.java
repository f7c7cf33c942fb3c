package io.arioso;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.NoSuchElementException;
import java.util.concurrent.atomic.AtomicBoolean;

/**
 * Delivers what was subscribed to, exactly once and in order, when asked: pulling is the back-pressure. One that is not asked
 * costs nobody anything and goes on where it was.
 *
 * <p>One thread at a time may ask for the next batch; any thread may close, and whoever waits then gets
 * {@link ErrorCode#CLOSED}.
 */
public final class Subscription implements Iterable<Batch>, AutoCloseable {
    private static final int BUFFER_BYTES = 256 << 10;

    private final Bus bus;
    private final Handle handle;
    private final AtomicBoolean asking = new AtomicBoolean();
    private final TopicNames names = new TopicNames();
    private final long[] facts = new long[3];
    private ByteBuffer buffer;
    private Batch shown;

    Subscription(Bus bus, long number) {
        this.bus = bus;
        this.handle = Handle.of(this, number);
    }

    private long open() {
        long number = handle.number();
        if (number == 0) {
            throw BusException.closed("subscription");
        }
        return number;
    }

    /**
     * The next messages; waits for them. {@link ErrorCode#TRIMMED} tells that retention has passed the position: what lies
     * between is gone, {@link #goOn} goes on.
     *
     * @return the batch, which holds until the next is asked for; null at the end
     */
    public Batch next() {
        if (!asking.compareAndSet(false, true)) {
            throw BusException.argument("another thread is asking this subscription for its next batch");
        }
        try {
            shown = null;
            return ask();
        } finally {
            asking.set(false);
            Reference.reachabilityFence(this);
        }
    }

    private Batch ask() {
        long number = open();
        if (buffer == null) {
            buffer = ByteBuffer.allocateDirect(BUFFER_BYTES);
        }
        while (true) {
            switch (Native.next(number, buffer, facts)) {
                case 0:
                    return null;
                case 1:
                    ByteBuffer records = buffer.slice(0, (int) facts[0]).order(ByteOrder.LITTLE_ENDIAN);
                    shown = new Batch(this, records, (int) facts[1], facts[2], null);
                    return shown;
                default:
                    // A batch of one message may have 16 MiB and more.
                    buffer = ByteBuffer.allocateDirect(Math.toIntExact(facts[0]));
            }
        }
    }

    boolean shows(Batch batch) {
        return shown == batch;
    }

    String topic(int id) {
        String name = names.get(id);
        if (name == null) {
            try {
                name = Native.topicName(open(), id);
            } finally {
                Reference.reachabilityFence(this);
            }
            names.put(id, name);
        }
        return name;
    }

    /**
     * Walks the batches until the end, waiting for each. There is one walk: a second iterator goes on where the first is.
     *
     * @return the walk
     */
    @Override
    public Iterator<Batch> iterator() {
        return new Walk();
    }

    private final class Walk implements Iterator<Batch> {
        private Batch next;
        private boolean over;

        @Override
        public boolean hasNext() {
            if (next == null && !over) {
                next = Subscription.this.next();
                over = next == null;
            }
            return next != null;
        }

        @Override
        public Batch next() {
            if (!hasNext()) {
                throw new NoSuchElementException();
            }
            Batch given = next;
            next = null;
            return given;
        }
    }

    /**
     * Goes on behind what retention took, after {@link ErrorCode#TRIMMED}.
     *
     * @param sequence where, {@link BusException#detailB} mostly
     * @return false if it was not trimmed
     */
    public boolean goOn(long sequence) {
        try {
            return Native.goOn(open(), sequence);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Moves its cursor, durably when this returns. To be called when what came before is handled: after a crash the cursor goes
     * on there.
     *
     * @param next the first sequence it still wants
     */
    public void commit(long next) {
        try {
            Native.commit(open(), next);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Moves its cursor behind a batch.
     *
     * @param handled a batch that is handled
     */
    public void commit(Batch handled) {
        commit(handled.through() + 1);
    }

    /** The first sequence that could be delivered when it began. */
    public long startsAt() {
        try {
            return Native.startsAt(open());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Whether neither it nor its bus was closed. */
    public boolean isOpen() {
        return handle.isOpen() && bus.isOpen();
    }

    /** Closes it. Whoever waits for a batch leaves. May be called twice, from any thread, and while it is walked. */
    @Override
    public void close() {
        handle.close();
    }
}
