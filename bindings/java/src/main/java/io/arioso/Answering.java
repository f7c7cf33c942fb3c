package io.arioso;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Completes the futures of one bus: one daemon thread, which takes many answers with one call. It begins with the first future
 * and ends when the bus is closed and everything is answered. It knows nothing of the {@link Bus}, so that an abandoned bus can
 * be collected.
 */
final class Answering {
    private static final int BUFFER_BYTES = 64 << 10;
    /** How long closing waits for callbacks to come to an end. */
    private static final long END_WAIT_S = 5;

    private record Pending(CompletableFuture<Ack> future, Semaphore permits) {}

    // Bounded by the permits of the publishers.
    private final ConcurrentHashMap<Long, Pending> pending = new ConcurrentHashMap<>();
    private final AtomicLong tokens = new AtomicLong(1);
    private volatile Thread thread;

    /** Whether this is the thread that completes. */
    boolean isCurrent() {
        return Thread.currentThread() == thread;
    }

    /** Begins, if it has not. */
    void begin(Handle bus, Object owner) {
        if (thread == null) {
            beginOnce(bus, owner);
        }
    }

    private synchronized void beginOnce(Handle bus, Object owner) {
        if (thread != null) {
            return;
        }
        long answers;
        try {
            answers = Native.answers(bus.number());
        } finally {
            Reference.reachabilityFence(owner);
        }
        Thread begun = new Thread(() -> run(answers), "arioso-answers");
        begun.setDaemon(true);
        thread = begun;
        begun.start();
    }

    /** A token under which the answer will come. */
    long expect(CompletableFuture<Ack> future, Semaphore permits) {
        long token = tokens.getAndIncrement();
        pending.put(token, new Pending(future, permits));
        return token;
    }

    /** Nothing was sent under this token. */
    void forget(long token) {
        Pending forgotten = pending.remove(token);
        if (forgotten != null) {
            forgotten.permits().release();
        }
    }

    /** Waits until everything is answered and the callbacks are over, but not for itself and not for ever. */
    void awaitEnd() {
        Thread running = thread;
        if (running == null || isCurrent()) {
            return;
        }
        try {
            running.join(TimeUnit.SECONDS.toMillis(END_WAIT_S));
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
        }
    }

    private void run(long answers) {
        ByteBuffer buffer = ByteBuffer.allocateDirect(BUFFER_BYTES).order(ByteOrder.LITTLE_ENDIAN);
        BusException over = BusException.closed("bus");
        try {
            for (int bytes = Native.nextAnswers(answers, buffer); bytes >= 0; bytes = Native.nextAnswers(answers, buffer)) {
                buffer.position(0).limit(bytes);
                while (buffer.hasRemaining()) {
                    complete(buffer);
                }
                buffer.clear();
            }
        } catch (BusException exception) {
            over = exception;
        }
        for (Long token : pending.keySet()) {
            Pending left = pending.remove(token);
            if (left != null) {
                left.permits().release();
                left.future().completeExceptionally(over);
            }
        }
    }

    private void complete(ByteBuffer buffer) {
        long token = buffer.getLong();
        int code = buffer.getInt();
        byte[] text = new byte[buffer.getInt()];
        long first = buffer.getLong();
        long second = buffer.getLong();
        long third = buffer.getLong();
        buffer.get(text);
        Pending answered = pending.remove(token);
        if (answered == null) {
            return;
        }
        answered.permits().release();
        // A future catches what its dependants throw, so this thread lives on.
        if (code == ErrorCode.OK) {
            answered.future().complete(Ack.of(first, second, third));
        } else {
            String message = new String(text, StandardCharsets.UTF_8);
            answered.future().completeExceptionally(new BusException(code, first, second, message));
        }
    }
}
