package io.arioso;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Flow;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(60)
class BusTest {
    private static final Map<String, String> SMALL = Map.of("segment-bytes", "1MiB", "tip-bytes", "8MiB");

    @TempDir
    Path dir;

    private Bus open() {
        return Bus.open(dir.resolve("bus"), SMALL);
    }

    private static List<String> read(Bus bus, String filter) {
        List<String> read = new ArrayList<>();
        try (Subscription subscription = bus.subscribe(Subscribe.to(filter).fromStart().untilEnd())) {
            for (Batch batch : subscription) {
                for (Received message : batch) {
                    read.add(message.topic() + " " + message.payloadText());
                }
            }
        }
        return read;
    }

    @Test
    void whatIsPublishedIsReplayedInOrderAlsoAfterReopening() {
        try (Bus bus = open()) {
            long first = bus.publish("orders/1", "a".getBytes(UTF_8)).sequence();
            bus.publish("weather/oslo", Message.of("rain"));
            assertTrue(bus.publish("orders/2", Message.of("b")).sequence() > first);
            assertEquals(List.of("orders/1 a", "orders/2 b"), read(bus, "orders/**"));
        }
        try (Bus bus = open()) {
            assertEquals(List.of("orders/1 a", "weather/oslo rain", "orders/2 b"), read(bus, "**"));
            assertEquals(2, bus.topics("orders/**").size());
            assertEquals(3, bus.status().topics());
        }
    }

    @Test
    void futuresAreCompletedInOrderAndBeforeCloseReturns() {
        List<CompletableFuture<Ack>> futures = new ArrayList<>();
        List<Long> completed = new ArrayList<>();
        try (Bus bus = open();
                Publisher publisher = bus.publisher("sensor")) {
            for (int n = 0; n < 5_000; n++) {
                CompletableFuture<Ack> future = publisher.publishAsync("sensors/" + n % 7, Message.of("" + n));
                future.thenAccept(ack -> completed.add(ack.sequence()));
                futures.add(future);
            }
        }
        assertTrue(futures.stream().allMatch(CompletableFuture::isDone));
        List<Long> sequences = futures.stream().map(future -> future.join().sequence()).toList();
        assertEquals(sequences.stream().sorted().toList(), sequences);
        assertEquals(5_000, completed.size());
    }

    @Test
    void aBlockIsOneCrossingAndOneAnswerWithHeadersAndEventTimes() {
        try (Bus bus = open();
                Publisher publisher = bus.publisher()) {
            Block block = publisher.block();
            assertTrue(block.add("a/b", Message.of("x").eventTime(42).header("k", new byte[] {1, 2})));
            for (int n = 0; n < 99; n++) {
                assertTrue(block.add("a/c", new byte[] {(byte) n}));
            }
            assertEquals(100, publisher.publish(block).messages());
            assertEquals(0, block.size());
            try (Subscription subscription = bus.subscribe(Subscribe.to("a/b").fromStart().untilEnd())) {
                Received message = subscription.next().copy().iterator().next();
                assertEquals(42, message.eventTime().orElseThrow());
                assertEquals(List.of(new Message.Header("k", new byte[] {1, 2})), message.headers());
                assertNull(subscription.next());
            }
        }
    }

    @Test
    void aMessageLongerThanTheBufferIsDeliveredWhole() {
        byte[] payload = new byte[3 << 20];
        payload[payload.length - 1] = 7;
        try (Bus bus = open()) {
            bus.publish("big/one", payload);
            try (Subscription subscription = bus.subscribe(Subscribe.to("big/**").fromStart().untilEnd())) {
                assertArrayEquals(payload, subscription.next().iterator().next().payloadArray());
            }
        }
    }

    @Test
    void refusalsHaveTheNumberOfTheWire() {
        try (Bus bus = open()) {
            BusException topic = assertThrows(BusException.class, () -> bus.publish("$bus/x", new byte[0]));
            assertEquals(ErrorCode.BAD_TOPIC, topic.code());
            BusException filter = assertThrows(BusException.class, () -> bus.subscribe(Subscribe.to("a/**/b")));
            assertEquals(ErrorCode.BAD_FILTER, filter.code());
            BusException second = assertThrows(BusException.class, this::open);
            assertEquals(ErrorCode.OPEN, second.code());
        }
    }

    @Test
    void panicsAndFailuresOfTheLibraryBecomeExceptions() {
        Native.load();
        assertEquals(5, Native.echo(5, 0));
        assertEquals(ErrorCode.ARGUMENT, assertThrows(BusException.class, () -> Native.echo(5, 1)).code());
        BusException panic = assertThrows(BusException.class, () -> Native.echo(5, 2));
        assertEquals(ErrorCode.PANIC, panic.code());
        assertTrue(panic.getMessage().contains("echo of 5"), panic.getMessage());
        BusException lacking = assertThrows(BusException.class, () -> Native.check(new String[0]));
        assertTrue(lacking.getMessage().contains("echo(JI)J"), lacking.getMessage());
    }

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
    void aBusMayBeClosedInACallbackOfItsOwn() throws Exception {
        Bus bus = open();
        CountDownLatch closed = new CountDownLatch(1);
        bus.publishAsync("a/b", Message.of("x")).thenRun(() -> {
            bus.close();
            closed.countDown();
        });
        assertTrue(closed.await(30, TimeUnit.SECONDS));
        bus.close();
    }

    @Test
    void openedAndClosedAgainAndAgainNothingIsLeftAndNothingIsLost() {
        int rounds = Integer.getInteger("arioso.rounds", 60);
        for (int n = 0; n < rounds; n++) {
            try (Bus bus = open()) {
                bus.subscribe(Subscribe.to("**"));
                bus.publish("round/" + n % 3, Message.of("" + n));
            }
        }
        try (Bus bus = open()) {
            assertEquals(rounds, read(bus, "**").size());
        }
    }

    @Test
    void aFlowGivesOnlyWhatIsAskedFor() throws Exception {
        try (Bus bus = open()) {
            bus.publish("a/b", Message.of("1"));
            CountDownLatch subscribed = new CountDownLatch(1);
            CountDownLatch over = new CountDownLatch(1);
            AtomicReference<Flow.Subscription> demand = new AtomicReference<>();
            List<Batch> got = new ArrayList<>();
            bus.flow(Subscribe.to("a/b").fromStart().untilEnd()).subscribe(new Flow.Subscriber<>() {
                @Override
                public void onSubscribe(Flow.Subscription subscription) {
                    demand.set(subscription);
                    subscribed.countDown();
                }

                @Override
                public void onNext(Batch batch) {
                    got.add(batch);
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
            subscribed.await();
            assertFalse(over.await(200, TimeUnit.MILLISECONDS));
            assertTrue(got.isEmpty());
            demand.get().request(Long.MAX_VALUE);
            assertTrue(over.await(30, TimeUnit.SECONDS));
            assertEquals("1", got.get(0).iterator().next().payloadText());
        }
    }
}
