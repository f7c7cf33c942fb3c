package io.arioso;

import java.lang.ref.Reference;
import java.nio.charset.StandardCharsets;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;

/**
 * Publishes in order. Any number of threads may share one. A named one stores a retry once, over connections and restarts; an
 * anonymous one keeps no state.
 *
 * <p>A call that finds the window of unanswered messages full waits for room: that is the back-pressure.
 */
public final class Publisher implements AutoCloseable {
    /** Futures of one publisher that may be open, answered or not: a callback that is slow makes who publishes wait. */
    private static final int FUTURES_MAX = 1 << 16;

    private final Bus bus;
    private final Handle handle;
    private final Semaphore permits = new Semaphore(FUTURES_MAX);

    Publisher(Bus bus, long number) {
        this.bus = bus;
        this.handle = Handle.of(this, number);
    }

    private Ack await(Block.Sender sender) {
        try {
            long[] answer = new long[3];
            sender.send(open(), 0, answer);
            return Ack.of(answer[0], answer[1], answer[2]);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    private CompletableFuture<Ack> begin(Block.Sender sender) {
        CompletableFuture<Ack> future = new CompletableFuture<>();
        Answering answering = bus.answering();
        try {
            bus.beginAnswering();
            if (!permits.tryAcquire()) {
                if (answering.isCurrent()) {
                    // It would wait for itself.
                    throw new BusException(ErrorCode.BUSY, FUTURES_MAX, 0, FUTURES_MAX + " futures are open");
                }
                permits.acquireUninterruptibly();
            }
            long token = answering.expect(future, permits);
            try {
                sender.send(open(), token, null);
            } catch (Throwable thrown) {
                answering.forget(token);
                throw thrown;
            }
        } catch (BusException exception) {
            future.completeExceptionally(exception);
        } finally {
            Reference.reachabilityFence(this);
        }
        return future;
    }

    private long open() {
        long number = handle.number();
        if (number == 0) {
            throw BusException.closed("publisher");
        }
        return number;
    }

    private static Block.Sender one(String topic, Message message) {
        byte[] bytes = topic.getBytes(StandardCharsets.UTF_8);
        byte[] extras = message.extras();
        int level = message.level.ordinal();
        return (publisher, token, answer) -> Native.send(
                publisher, bytes, message.payload, message.offset, message.count, extras, level, token, answer);
    }

    /**
     * Publishes a payload and waits until it is durable.
     *
     * @param topic where
     * @param payload its bytes
     * @return where it was stored
     */
    public Ack publish(String topic, byte[] payload) {
        return publish(topic, Message.of(payload));
    }

    /**
     * Publishes a message and waits for its answer.
     *
     * @param topic where
     * @param message the message
     * @return where it was stored
     */
    public Ack publish(String topic, Message message) {
        return await(one(topic, message));
    }

    /**
     * Publishes a payload; waits only for room. The future is completed when it is durable, on the bus's answering thread, in the
     * order of publishing; long work belongs on another thread ({@code thenApplyAsync}).
     *
     * @param topic where
     * @param payload its bytes; they may be changed as soon as this returns
     * @return completed with where it was stored, or with a {@link BusException}
     */
    public CompletableFuture<Ack> publishAsync(String topic, byte[] payload) {
        return publishAsync(topic, Message.of(payload));
    }

    /**
     * As {@link #publishAsync(String, byte[])}, with everything that can be said.
     *
     * @param topic where
     * @param message the message
     * @return completed with where it was stored, or with a {@link BusException}
     */
    public CompletableFuture<Ack> publishAsync(String topic, Message message) {
        return begin(one(topic, message));
    }

    /**
     * An empty block: the bulk way to publish many small messages, with one crossing, one frame and one answer.
     *
     * @return the block, which belongs to this publisher
     */
    public Block block() {
        return new Block(this, false);
    }

    /**
     * An empty atomic batch: all of its messages are stored or none, as one journal write.
     *
     * @return the block, which belongs to this publisher
     */
    public Block atomic() {
        return new Block(this, true);
    }

    /**
     * Publishes a block, empties it and waits for its answer.
     *
     * @param block a block of this publisher
     * @return from where to where it was stored
     */
    public Ack publish(Block block) {
        return await(block.sender(this));
    }

    /**
     * Publishes a block and empties it; waits only for room.
     *
     * @param block a block of this publisher
     * @return completed with from where to where it was stored, or with a {@link BusException}
     */
    public CompletableFuture<Ack> publishAsync(Block block) {
        return begin(block.sender(this));
    }

    /** The number by which blocks name a topic. */
    int topic(String topic) {
        Objects.requireNonNull(topic, "topic");
        try {
            return Native.topic(open(), topic);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Waits until everything sent before is answered; what the answers were, the futures tell. */
    public void flush() {
        try {
            Native.flush(open());
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /** Whether neither it nor its bus was closed. */
    public boolean isOpen() {
        return handle.isOpen() && bus.isOpen();
    }

    /** Closes it: everything sent before is answered when this returns. May be called twice, and from any thread. */
    @Override
    public void close() {
        handle.close();
    }
}
