package io.arioso;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.HashMap;
import java.util.Map;
import java.util.Objects;

/**
 * Messages built beforehand, published with one crossing. {@link Publisher#block} makes one that is sent as one frame,
 * {@link Publisher#atomic} one of which all messages are stored or none. Emptied by being published, it is filled again. Threads
 * may share one, but a block is filled in the order of their calls.
 */
public final class Block {
    /** What goes into one frame. */
    private static final int FRAME_BYTES_MAX = 256 << 10;
    private static final int ATOMIC_BYTES_MAX = 16 << 20;
    private static final int ATOMIC_MESSAGES_MAX = 4_096;
    /** What a record has besides payload and extensions: its header, its padding. */
    private static final int RECORD_BYTES = 32 + 7;
    /** What an entry has besides payload and extras. */
    private static final int ENTRY_BYTES = 12;
    /** Topics whose numbers are remembered here; more are asked for again. */
    private static final int TOPICS_MAX = 1 << 16;

    private final Publisher publisher;
    private final boolean atomic;
    private final int bytesMax;
    private final int messagesMax;
    private final Map<String, Integer> topics = new HashMap<>();
    private ByteBuffer entries = ByteBuffer.allocateDirect(16 << 10).order(ByteOrder.LITTLE_ENDIAN);
    private AckLevel level = AckLevel.DURABLE;
    private int messages;
    private int recordBytes;

    Block(Publisher publisher, boolean atomic) {
        this.publisher = publisher;
        this.atomic = atomic;
        this.bytesMax = atomic ? ATOMIC_BYTES_MAX : FRAME_BYTES_MAX;
        this.messagesMax = atomic ? ATOMIC_MESSAGES_MAX : Integer.MAX_VALUE;
    }

    /**
     * Answers all its messages at this level.
     *
     * @param level the level
     * @return this block
     */
    public synchronized Block level(AckLevel level) {
        this.level = Objects.requireNonNull(level, "level");
        return this;
    }

    /**
     * Appends a message.
     *
     * @param topic where
     * @param payload its bytes, copied
     * @return false if the block is full and must be published first
     */
    public boolean add(String topic, byte[] payload) {
        return add(topic, Message.of(payload));
    }

    /**
     * Appends a message. The level is the block's. Only the first of an atomic batch may have a condition, and none of a block.
     *
     * @param topic where
     * @param message the message, copied
     * @return false if the block is full and must be published first
     */
    public synchronized boolean add(String topic, Message message) {
        byte[] extras = message.extras();
        int extrasBytes = extras == null ? 0 : extras.length;
        // What the extensions take as a record's is less than 16 bytes more than what they take here.
        long bytes = (long) RECORD_BYTES + message.count + (extrasBytes == 0 ? 0 : extrasBytes + 16);
        if (messages > 0 && (recordBytes + bytes > bytesMax || messages == messagesMax)) {
            return false;
        }
        if (bytes > ATOMIC_BYTES_MAX + (1 << 16)) {
            throw new BusException(ErrorCode.PAYLOAD_TOO_LARGE, message.count, 0, "a payload of " + message.count + " bytes");
        }
        int number = number(topic);
        room(ENTRY_BYTES + message.count + extrasBytes);
        entries.putInt(number).putInt(message.count).putInt(extrasBytes);
        entries.put(message.payload, message.offset, message.count);
        if (extras != null) {
            entries.put(extras);
        }
        messages++;
        recordBytes += (int) bytes;
        return true;
    }

    private int number(String topic) {
        Integer known = topics.get(topic);
        if (known != null) {
            return known;
        }
        int number = publisher.topic(topic);
        if (topics.size() < TOPICS_MAX) {
            topics.put(topic, number);
        }
        return number;
    }

    private void room(int bytes) {
        if (entries.remaining() < bytes) {
            int size = Math.max(entries.position() + bytes, 2 * entries.capacity());
            ByteBuffer longer = ByteBuffer.allocateDirect(size).order(ByteOrder.LITTLE_ENDIAN);
            entries = longer.put(entries.flip());
        }
    }

    /** Messages in it. */
    public synchronized int size() {
        return messages;
    }

    /** Empties it without publishing. */
    public synchronized void clear() {
        entries.clear();
        messages = 0;
        recordBytes = 0;
    }

    Sender sender(Publisher by) {
        if (by != publisher) {
            throw BusException.argument("the block belongs to another publisher");
        }
        return this::send;
    }

    private synchronized void send(long number, long token, long[] answer) {
        if (messages == 0) {
            throw BusException.argument("the block is empty");
        }
        Native.sendBlock(number, entries, entries.position(), atomic, level.ordinal(), token, answer);
        clear();
    }

    /** Sends something to a publisher by its number; waits for the answer if the token is 0. */
    interface Sender {
        void send(long publisher, long token, long[] answer);
    }
}
