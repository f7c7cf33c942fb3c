package io.arioso;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** How a bus is closed, by whom, and when nobody does: {@link ClosingEmbeddedTest} and {@link ClosingConnectedTest} run it. */
@Timeout(60)
abstract class ClosingSuite {
    private static final long COLLECTED_WITHIN_NS = TimeUnit.SECONDS.toNanos(50);

    @TempDir
    Path dir;

    abstract Bus open();

    @Test
    void closingTwiceAndAfterAFailedOpenDoesNothingAndAClosedBusSaysSo() throws Exception {
        Path file = Files.createFile(dir.resolve("file"));
        assertThrows(BusException.class, () -> Bus.open(file));
        assertThrows(BusException.class, () -> Bus.connect("127.0.0.1:1"));
        Bus bus = open();
        Publisher publisher = bus.publisher();
        Subscription subscription = bus.subscribe(Subscribe.to("**"));
        bus.close();
        bus.close();
        publisher.close();
        subscription.close();
        subscription.close();
        assertTrue(assertThrows(BusException.class, () -> bus.publish("a/b", new byte[0])).isClosed());
        assertTrue(assertThrows(BusException.class, subscription::next).isClosed());
        assertTrue(assertThrows(BusException.class, () -> publisher.publish("a/b", new byte[0])).isClosed());
        assertFalse(bus.isOpen());
    }

    @Test
    void closingFromAnotherThreadEndsWhoWaitsForABatch() throws Exception {
        Bus bus = open();
        Subscription subscription = bus.subscribe(Subscribe.to("**"));
        AtomicReference<BusException> thrown = new AtomicReference<>();
        CountDownLatch asking = new CountDownLatch(1);
        Thread waiting = new Thread(() -> {
            asking.countDown();
            thrown.set(assertThrows(BusException.class, subscription::next));
        });
        waiting.start();
        asking.await();
        bus.close();
        waiting.join();
        assertTrue(thrown.get().isClosed());
    }

    @Test
    void threadsThatPublishAndReadWhileTheBusIsClosedEndWithAnErrorOrTheirAnswer() throws Exception {
        for (int round = 0; round < 10; round++) {
            Bus bus = open();
            List<Thread> threads = new ArrayList<>();
            List<Throwable> wrong = new ArrayList<>();
            CountDownLatch busy = new CountDownLatch(4);
            for (int n = 0; n < 4; n++) {
                boolean reads = n % 2 == 0;
                threads.add(new Thread(() -> {
                    try {
                        Subscription all = bus.subscribe(Subscribe.to("**"));
                        while (true) {
                            bus.publishAsync("a/b", Message.of("x")).get();
                            if (reads) {
                                all.next().iterator().next().payloadArray();
                            }
                            busy.countDown();
                        }
                    } catch (BusException exception) {
                        busy.countDown();
                        if (!exception.isClosed()) {
                            wrong.add(exception);
                        }
                    } catch (Exception exception) {
                        if (!(exception.getCause() instanceof BusException cause && cause.isClosed())) {
                            wrong.add(exception);
                        }
                    }
                }));
            }
            threads.forEach(Thread::start);
            busy.await();
            bus.close();
            for (Thread thread : threads) {
                thread.join();
            }
            assertEquals(List.of(), wrong);
        }
    }

    @Test
    void closingWhileItIsWalkedLeavesTheBatchReadableAndEndsTheWalk() {
        Bus bus = open();
        bus.publish("a/b", Message.of("1"));
        bus.publish("a/b", Message.of("2"));
        Subscription subscription = bus.subscribe(Subscribe.to("**").fromStart());
        List<String> read = new ArrayList<>();
        BusException over = assertThrows(BusException.class, () -> {
            for (Batch batch : subscription) {
                for (Received message : batch) {
                    read.add(message.topic() + " " + message.payloadText());
                    subscription.close();
                    subscription.close();
                }
            }
        });
        assertTrue(over.isClosed());
        assertEquals("a/b 1", read.get(0));
        assertTrue(bus.isOpen());
        bus.publish("a/b", Message.of("3"));
        bus.close();
    }

    @Test
    void closingTheBusWhileABatchIsWalkedLeavesItsBytes() {
        Bus bus = open();
        bus.publish("a/b", Message.of("1"));
        Subscription subscription = bus.subscribe(Subscribe.to("**").fromStart());
        Batch batch = subscription.next();
        bus.close();
        Received message = batch.iterator().next();
        assertEquals("1", message.payloadText());
        assertTrue(assertThrows(BusException.class, message::topic).isClosed(), "a name that was not asked for yet");
    }

    @Test
    void aBusMayBeClosedInACallbackOfItsOwn() throws Exception {
        Bus bus = open();
        CountDownLatch closed = new CountDownLatch(1);
        bus.publishAsync("a/b", Message.of("x")).thenRun(() -> {
            bus.close();
            bus.close();
            closed.countDown();
        });
        assertTrue(closed.await(30, TimeUnit.SECONDS));
        bus.close();
    }

    @Test
    void aBusMayBeClosedByTheSubscriberOfAFlow() throws Exception {
        Bus bus = open();
        bus.publish("a/b", Message.of("x"));
        CountDownLatch over = new CountDownLatch(1);
        bus.flow(Subscribe.to("**").fromStart()).subscribe(new Flow.Subscriber<>() {
            @Override
            public void onSubscribe(Flow.Subscription subscription) {
                subscription.request(2);
            }

            @Override
            public void onNext(Batch batch) {
                bus.close();
            }

            @Override
            public void onError(Throwable thrown) {
                over.countDown();
            }

            @Override
            public void onComplete() {
                over.countDown();
            }
        });
        assertTrue(over.await(30, TimeUnit.SECONDS));
        assertFalse(bus.isOpen());
    }

    @Test
    void callbacksComeOnThreadsOfJavaAndNoOtherThreadIsAttached() throws Exception {
        try (Bus bus = open()) {
            CompletableFuture<Thread> ran = new CompletableFuture<>();
            List<Thread> before = List.copyOf(Thread.getAllStackTraces().keySet());
            bus.publishAsync("a/b", Message.of("x")).thenAccept(ack -> ran.complete(Thread.currentThread()));
            Thread answering = ran.get(30, TimeUnit.SECONDS);
            if (answering != Thread.currentThread()) {
                assertEquals("arioso-answers", answering.getName());
                assertTrue(answering.isDaemon());
            }
            bus.subscribe(Subscribe.to("**").fromStart()).next();
            // A thread of Rust that attached itself would be seen here, as Thread-0 or by a name of its own.
            List<String> others = Thread.getAllStackTraces().keySet().stream()
                    .filter(thread -> !before.contains(thread))
                    .map(Thread::getName)
                    .filter(name -> !name.equals("arioso-answers"))
                    .toList();
            assertEquals(List.of(), others);
        }
    }

    @Test
    @Timeout(value = 2, unit = TimeUnit.HOURS)
    void openedAndClosedAgainAndAgainNothingIsLeftAndNothingIsLost() throws IOException {
        int rounds = Integer.getInteger("arioso.rounds", 60);
        try (Bus bus = open()) {
            bus.publish("round/0", Message.of("before"));
        }
        long objects = Native.objects();
        long files = 0;
        long threads = 0;
        for (int n = 0; n < rounds; n++) {
            try (Bus bus = open()) {
                bus.subscribe(Subscribe.to("**"));
                bus.publishAsync("round/" + n % 3, Message.of("" + n));
            }
            if (n == rounds / 2) {
                files = entries("/proc/self/fd");
                threads = entries("/proc/self/task");
            }
        }
        assertEquals(objects, Native.objects());
        // The JVM's own threads come and go; one left behind a round would be dozens.
        assertTrue(entries("/proc/self/fd") <= files + 8, files + " files before, " + entries("/proc/self/fd"));
        assertTrue(entries("/proc/self/task") <= threads + 8, threads + " threads before");
        try (Bus bus = open()) {
            assertEquals(rounds + 1, BusSuite.read(bus, "**").size());
        }
    }

    private static long entries(String directory) throws IOException {
        try (var entries = Files.list(Path.of(directory))) {
            return entries.count();
        }
    }

    /** A bus with everything open in it, and nobody who holds it when this returns. */
    private void abandon() {
        Bus bus = openAgain();
        bus.publish("a/b", Message.of("kept"));
        Publisher publisher = bus.publisher("abandoned");
        publisher.publishAsync("a/b", Message.of("sent")).join();
        assertNotNull(bus.subscribe(Subscribe.to("**").fromStart()).next());
    }

    private static void collectUntil(long objects) {
        long deadline = System.nanoTime() + COLLECTED_WITHIN_NS;
        while (Native.objects() > objects) {
            assertTrue(System.nanoTime() < deadline, Native.objects() + " objects, " + objects + " before");
            System.gc();
            Thread.yield();
        }
    }

    @Test
    void whatIsCollectedWithoutBeingClosedIsClosedBehindIt() {
        Native.load();
        long objects = Native.objects();
        for (int n = 0; n < 3; n++) {
            abandon();
            collectUntil(objects);
        }
        try (Bus bus = openAgain()) {
            assertEquals(6, BusSuite.read(bus, "a/b").size());
        }
    }

    /** The lock of an abandoned directory is given back a moment after its number. */
    private Bus openAgain() {
        long deadline = System.nanoTime() + COLLECTED_WITHIN_NS;
        while (true) {
            try {
                return open();
            } catch (BusException exception) {
                assertEquals(ErrorCode.OPEN, exception.code());
                assertTrue(System.nanoTime() < deadline, exception.getMessage());
                Thread.yield();
            }
        }
    }

    @Test
    void publishersAndSubscriptionsThatAreAbandonedAreCollectedWhileTheirBusLives() {
        try (Bus bus = open()) {
            bus.publish("a/b", Message.of("x"));
            long objects = Native.objects();
            for (int n = 0; n < 20; n++) {
                bus.publisher().publishAsync("a/b", Message.of("" + n));
                bus.subscribe(Subscribe.to("**").fromStart());
            }
            collectUntil(objects + 1);
            assertEquals(21, BusSuite.read(bus, "a/b").size());
        }
    }

    @Test
    void whatNeverCameToConnectLeavesNothingToCollect() throws IOException {
        Native.load();
        long objects = Native.objects();
        try (ServerSocket silent = new ServerSocket(0, 50, InetAddress.getLoopbackAddress())) {
            String address = "127.0.0.1:" + silent.getLocalPort();
            ConnectOptions brief = ConnectOptions.defaults().timeout(Duration.ofMillis(200));
            for (int n = 0; n < 3; n++) {
                BusException exception = assertThrows(BusException.class, () -> Bus.connect(address, brief));
                assertEquals(ErrorCode.UNREACHABLE, exception.code(), exception.getMessage());
            }
        }
        for (int n = 0; n < 3; n++) {
            assertThrows(BusException.class, () -> Bus.open(Path.of("/proc/nowhere")));
            System.gc();
        }
        assertEquals(objects, Native.objects());
        try (Bus bus = open()) {
            bus.publish("a/b", "still fine".getBytes(UTF_8));
        }
    }
}
