package io.arioso;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.function.Consumer;
import java.util.function.LongFunction;

/**
 * An ordered, durable message bus, inside this process or on a server. Any number of threads may use it.
 *
 * <p>Close it. One that is collected without being closed is closed behind it, some time later. A process that exits with an open
 * bus loses nothing that was acknowledged; the next start replays what was not sealed.
 */
public final class Bus implements AutoCloseable {
    private final Handle handle;
    private final Answering answering = new Answering();
    private final CountDownLatch closed = new CountDownLatch(1);
    /** Flows that may wait for demand. */
    private final Set<Runnable> flows = ConcurrentHashMap.newKeySet();
    private volatile Publisher anonymous;

    private Bus(long number) {
        this.handle = Handle.of(this, number);
    }

    /**
     * Opens the bus in a directory, which is made if missing, inside this process. Waits while it replays what was not sealed.
     * Somebody else who has it open is an error.
     *
     * @param directory its directory
     * @return the bus
     */
    public static Bus open(Path directory) {
        return open(directory, Map.of());
    }

    /**
     * As {@link #open(Path)}, with settings by the names that docs/operating.md lists, such as {@code tip-bytes}. The addresses
     * among them are not listened on.
     *
     * @param directory its directory
     * @param settings values by name
     * @return the bus
     */
    public static Bus open(Path directory, Map<String, String> settings) {
        Native.load();
        Fields fields = new Fields();
        settings.forEach((name, value) -> fields.text("a setting's name", name).text("a setting's value", value));
        return new Bus(Native.open(directory.toString(), fields.bytes()));
    }

    /**
     * Connects to a server.
     *
     * @param address {@code host:port}
     * @return the bus
     */
    public static Bus connect(String address) {
        return connect(address, ConnectOptions.defaults());
    }

    /**
     * As {@link #connect(String)}, with options.
     *
     * @param address {@code host:port}
     * @param options how it behaves
     * @return the bus
     */
    public static Bus connect(String address, ConnectOptions options) {
        Native.load();
        return new Bus(Native.connect(address, options.name, options.timeoutMs, options.unreachableMs));
    }

    private <T> T call(LongFunction<T> function) {
        try {
            long number = handle.number();
            if (number == 0) {
                throw BusException.closed("bus");
            }
            return function.apply(number);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    Answering answering() {
        return answering;
    }

    void beginAnswering() {
        answering.begin(handle, this);
    }

    void whenClosed(Runnable flow) {
        flows.add(flow);
        if (!isOpen()) {
            flow.run();
        }
    }

    void notWhenClosed(Runnable flow) {
        flows.remove(flow);
    }

    private Publisher anonymous() {
        Publisher known = anonymous;
        if (known != null) {
            return known;
        }
        synchronized (this) {
            if (anonymous == null) {
                anonymous = publisher();
            }
            return anonymous;
        }
    }

    /**
     * Publishes one payload and waits until it is durable. For many, {@link #publishAsync} or a {@link #publisher} keep them
     * flowing.
     *
     * @param topic where
     * @param payload its bytes
     * @return where it was stored
     */
    public Ack publish(String topic, byte[] payload) {
        return anonymous().publish(topic, payload);
    }

    /**
     * Publishes one message and waits for its answer.
     *
     * @param topic where
     * @param message the message
     * @return where it was stored
     */
    public Ack publish(String topic, Message message) {
        return anonymous().publish(topic, message);
    }

    /**
     * Publishes one message; waits only for room. See {@link Publisher#publishAsync(String, byte[])}.
     *
     * @param topic where
     * @param message the message
     * @return completed with where it was stored, or with a {@link BusException}
     */
    public CompletableFuture<Ack> publishAsync(String topic, Message message) {
        try {
            return anonymous().publishAsync(topic, message);
        } catch (BusException exception) {
            return CompletableFuture.failedFuture(exception);
        }
    }

    /**
     * Opens an anonymous publisher.
     *
     * @return the publisher
     */
    public Publisher publisher() {
        return call(bus -> new Publisher(this, Native.publisher(bus, null, 0)));
    }

    /**
     * Opens a named publisher: it stores a retry once, over connections and restarts. Whoever holds the name is fenced.
     *
     * @param name its name
     * @return the publisher
     */
    public Publisher publisher(String name) {
        return call(bus -> new Publisher(this, Native.publisher(bus, name, 0)));
    }

    /**
     * Opens a named publisher whose first message has this publisher sequence, by the caller's own count from 1: what it published
     * under a number before is answered with its original sequence, and not stored again.
     *
     * @param name its name
     * @param first the number of its first message
     * @return the publisher
     */
    public Publisher publisher(String name, long first) {
        return call(bus -> new Publisher(this, Native.publisher(bus, name, first)));
    }

    /**
     * Subscribes, to be pulled.
     *
     * @param wanted what and from where
     * @return the subscription
     */
    public Subscription subscribe(Subscribe wanted) {
        return call(bus -> new Subscription(this, Native.subscribe(bus, wanted.bytes())));
    }

    /**
     * The same as a {@link Flow.Publisher}: each subscriber gets all of it, batch by batch, as many as it asks for; nothing is
     * pulled from the bus before. Its methods are called on a daemon thread of its own, which keeps the bus from being collected
     * until it is cancelled, at its end, or the bus is closed. A batch may be kept.
     *
     * @param wanted what and from where
     * @return the publisher
     */
    public Flow.Publisher<Batch> flow(Subscribe wanted) {
        return new Flowing(this, wanted);
    }

    /**
     * Gives every topic that matches and has messages, in the order in which they were first published, page by page: memory is
     * bounded however many there are.
     *
     * @param filter which
     * @param each is given them
     */
    public void topics(String filter, Consumer<TopicInfo> each) {
        String after = "";
        boolean last = false;
        while (!last) {
            String from = after;
            ByteBuffer rows = Fields.rows(call(bus -> Native.topics(bus, filter, from)));
            last = rows.get() != 0;
            while (rows.hasRemaining()) {
                after = Fields.text(rows);
                each.accept(new TopicInfo(after, rows.getLong(), rows.getLong(), rows.getLong()));
            }
            last |= after.equals(from);
        }
    }

    /**
     * Every topic that matches and has messages.
     *
     * @param filter which
     * @return the topics
     */
    public List<TopicInfo> topics(String filter) {
        List<TopicInfo> topics = new ArrayList<>();
        topics(filter, topics::add);
        return topics;
    }

    /**
     * Every named publisher, by name.
     *
     * @return the publishers
     */
    public List<PublisherInfo> publishers() {
        List<PublisherInfo> publishers = new ArrayList<>();
        boolean last = false;
        while (!last) {
            String after = publishers.isEmpty() ? "" : publishers.get(publishers.size() - 1).name();
            ByteBuffer rows = Fields.rows(call(bus -> Native.publishers(bus, after)));
            last = rows.get() != 0 || !rows.hasRemaining();
            while (rows.hasRemaining()) {
                String name = Fields.text(rows);
                publishers.add(new PublisherInfo(
                        name, rows.getLong(), rows.getLong(), rows.getLong(), rows.getLong()));
            }
        }
        return publishers;
    }

    /**
     * Forgets a named publisher; what it published stays.
     *
     * @param name its name
     */
    public void dropPublisher(String name) {
        call(bus -> {
            Native.dropPublisher(bus, name);
            return null;
        });
    }

    /**
     * Every cursor, by name.
     *
     * @return the cursors
     */
    public List<CursorInfo> cursors() {
        List<CursorInfo> cursors = new ArrayList<>();
        boolean last = false;
        while (!last) {
            String after = cursors.isEmpty() ? "" : cursors.get(cursors.size() - 1).name();
            ByteBuffer rows = Fields.rows(call(bus -> Native.cursors(bus, after)));
            last = rows.get() != 0 || !rows.hasRemaining();
            while (rows.hasRemaining()) {
                String name = Fields.text(rows);
                long next = rows.getLong();
                long committedAt = rows.getLong();
                List<String> filters = new ArrayList<>();
                for (long left = rows.getLong(); left > 0; left--) {
                    filters.add(Fields.text(rows));
                }
                cursors.add(new CursorInfo(name, next, committedAt, List.copyOf(filters)));
            }
        }
        return cursors;
    }

    /**
     * Makes or moves a cursor.
     *
     * @param name its name
     * @param next the next message it wants
     * @param filters its filters; without any it keeps those it has
     */
    public void setCursor(String name, long next, String... filters) {
        Fields fields = new Fields();
        for (String filter : filters) {
            fields.text("a filter", filter);
        }
        call(bus -> {
            Native.setCursor(bus, name, next, fields.bytes());
            return null;
        });
    }

    /**
     * Forgets a cursor.
     *
     * @param name its name
     */
    public void dropCursor(String name) {
        call(bus -> {
            Native.dropCursor(bus, name);
            return null;
        });
    }

    /**
     * What a subscription would read, before it is begun.
     *
     * @param wanted what and from where
     * @return the explanation
     */
    public Explanation explain(Subscribe wanted) {
        ByteBuffer row = Fields.rows(call(bus -> Native.explain(bus, wanted.bytes())));
        return new Explanation(
                row.getLong(), row.getLong(), row.getLong(), row.getLong(), row.getLong(), row.getLong());
    }

    /**
     * How the stream stands.
     *
     * @return its status
     */
    public Status status() {
        ByteBuffer row = Fields.rows(call(Native::status));
        long next = row.getLong();
        long settled = row.getLong();
        long first = row.getLong();
        long topics = row.getLong();
        long tipBytes = row.getLong();
        long tipFirst = row.getLong();
        UUID id = new UUID(row.getLong(), row.getLong());
        return new Status(Fields.text(row), id, next, settled, first, topics, tipBytes, tipFirst);
    }

    /** Whether it was not closed. */
    public boolean isOpen() {
        return handle.isOpen();
    }

    /**
     * Closes it: what was published is answered, futures are completed; an embedded bus writes the mark of a clean stop. Publishers
     * and subscriptions are closed with it, whoever waits in them leaves.
     *
     * <p>May be called twice and from any thread. A second thread waits for the first, but a callback of this bus does not: it would
     * wait for itself. Callbacks still running after 5 s are not waited for.
     */
    @Override
    public void close() {
        long taken = handle.take();
        if (taken == 0) {
            awaitClosed();
            return;
        }
        try {
            Native.close(taken);
        } finally {
            handle.forget();
            flows.forEach(Runnable::run);
            answering.awaitEnd();
            closed.countDown();
        }
    }

    private void awaitClosed() {
        if (answering.isCurrent()) {
            return;
        }
        try {
            closed.await();
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
        }
    }
}
