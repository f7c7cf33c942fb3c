package io.arioso;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.Iterator;
import java.util.NoSuchElementException;

/**
 * Messages delivered together, in order, as they lie on disk and on the wire. It shows the subscription's buffer, so it holds
 * until the subscription is asked for the next one; {@link #copy} keeps it. Closing the subscription or the bus does not take its
 * bytes away, only the names of topics that were not asked for yet.
 */
public final class Batch implements Iterable<Received> {
    /** Null once it is a copy. */
    private final Subscription subscription;

    private final ByteBuffer records;
    private final int count;
    private final long through;
    /** Topics by place in the batch, of a copy. */
    private final String[] topics;

    Batch(Subscription subscription, ByteBuffer records, int count, long through, String[] topics) {
        this.subscription = subscription;
        this.records = records;
        this.count = count;
        this.through = through;
        this.topics = topics;
    }

    /** Messages in it. */
    public int size() {
        return count;
    }

    /** Everything the subscription selects up to here is delivered, this batch included. */
    public long through() {
        return through;
    }

    /** The records end to end, as they lie: a read-only view, little-endian; docs/format.md has the bytes. */
    public ByteBuffer records() {
        check();
        return records.asReadOnlyBuffer().order(ByteOrder.LITTLE_ENDIAN);
    }

    private void check() {
        if (subscription != null && !subscription.shows(this)) {
            throw BusException.argument("the subscription has gone on to another batch; copy() keeps one");
        }
    }

    String topic(int index, int id) {
        return topics == null ? subscription.topic(id) : topics[index];
    }

    /** A batch of its own memory, which holds for good. */
    public Batch copy() {
        if (subscription == null) {
            return this;
        }
        check();
        byte[] bytes = new byte[records.limit()];
        records.get(0, bytes);
        String[] names = new String[count];
        int index = 0;
        for (Received message : this) {
            names[index++] = message.topic();
        }
        return new Batch(null, ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN), count, through, names);
    }

    /** Walks the messages. One {@link Received} is moved along: what is to be kept of a message is to be taken out of it. */
    @Override
    public Iterator<Received> iterator() {
        return new Walk(new Received(this, records));
    }

    private final class Walk implements Iterator<Received> {
        private final Received message;
        private int left = count;

        Walk(Received message) {
            this.message = message;
        }

        @Override
        public boolean hasNext() {
            return left > 0;
        }

        @Override
        public Received next() {
            if (left == 0) {
                throw new NoSuchElementException();
            }
            check();
            if (!message.advance()) {
                throw new BusException(ErrorCode.PROTOCOL, 0, 0, "a batch has " + left + " records less than it says");
            }
            left--;
            return message;
        }
    }
}
