package io.arioso;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.time.Instant;
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

/** What holds for a bus, wherever it runs: {@link EmbeddedTest} and {@link ConnectedTest} run all of it. */
@Timeout(60)
abstract class BusSuite {
    static final Map<String, String> SMALL = Map.of("segment-bytes", "1MiB", "tip-bytes", "8MiB");

    @TempDir
    Path dir;

    /** Opens or connects to this test's bus, the same each time. */
    abstract Bus open();

    static List<String> read(Bus bus, String filter) {
        return read(bus, Subscribe.to(filter).fromStart().untilEnd());
    }

    static List<String> read(Bus bus, Subscribe wanted) {
        List<String> read = new ArrayList<>();
        try (Subscription subscription = bus.subscribe(wanted)) {
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
        }
    }

    @Test
    void conditionsAreJudgedAndTellTheNewest() {
        try (Bus bus = open()) {
            long first = bus.publish("stock/1", Message.of("5").expect("stock/1", 0)).sequence();
            BusException late = assertThrows(
                    BusException.class, () -> bus.publish("stock/1", Message.of("4").expect("stock/**", 0)));
            assertEquals(ErrorCode.CONDITION_FAILED, late.code());
            assertEquals(first, late.detailA());
            bus.publish("stock/1", Message.of("4").expect("stock/**", first));
            try (Subscription stock = bus.subscribe(Subscribe.to("stock/1").from(first + 1).untilEnd())) {
                Received message = stock.next().iterator().next();
                assertEquals("4", message.payloadText());
                assertTrue(message.isConditional());
            }
        }
    }

    @Test
    void anAtomicBatchIsStoredWholeOrNotAtAll() {
        try (Bus bus = open();
                Publisher publisher = bus.publisher("bank")) {
            Block transfer = publisher.atomic();
            transfer.add("account/1", Message.of("-5"));
            transfer.add("account/2", Message.of("+5"));
            Ack ack = publisher.publish(transfer);
            assertEquals(2, ack.messages());
            Block refused = publisher.atomic();
            refused.add("account/1", Message.of("-9").expect("account/1", 0));
            refused.add("account/2", Message.of("+9"));
            BusException exception = assertThrows(BusException.class, () -> publisher.publish(refused));
            assertEquals(ErrorCode.CONDITION_FAILED, exception.code());
            assertEquals(List.of("account/1 -5", "account/2 +5"), read(bus, "account/**"));
            try (Subscription all = bus.subscribe(Subscribe.to("account/**").fromStart().untilEnd())) {
                List<Boolean> marks = new ArrayList<>();
                for (Batch batch : all) {
                    for (Received message : batch) {
                        marks.add(message.isAtomicFirst());
                        marks.add(message.isAtomicLast());
                    }
                }
                assertEquals(List.of(true, false, false, true), marks);
            }
        }
    }

    @Test
    void aRetryOfANamedPublisherIsStoredOnce() {
        try (Bus bus = open()) {
            long sequence;
            try (Publisher shop = bus.publisher("shop", 1)) {
                sequence = shop.publish("orders/1", Message.of("new")).sequence();
            }
            try (Publisher shop = bus.publisher("shop", 1)) {
                assertEquals(sequence, shop.publish("orders/1", Message.of("new")).sequence());
            }
            assertEquals(List.of("orders/1 new"), read(bus, "orders/**"));
            assertEquals(List.of("shop"), bus.publishers().stream().map(PublisherInfo::name).toList());
            assertEquals(1, bus.publishers().get(0).last());
            bus.dropPublisher("shop");
            assertTrue(bus.publishers().isEmpty());
        }
    }

    @Test
    void theAnswerNamesItsLevel() {
        try (Bus bus = open()) {
            Ack weak = bus.publish("a/b", Message.of("1").level(AckLevel.SEQUENCED));
            assertEquals(AckLevel.SEQUENCED, weak.level());
            assertEquals(AckLevel.DURABLE, bus.publish("a/b", Message.of("2")).level());
        }
    }

    @Test
    void aCursorGoesOnWhereItWasCommitted() {
        Subscribe wanted = Subscribe.to("orders/**").fromStart().untilEnd().cursor("billing");
        try (Bus bus = open()) {
            long first = bus.publish("orders/1", Message.of("a")).sequence();
            bus.publish("orders/2", Message.of("b"));
            try (Subscription billing = bus.subscribe(wanted)) {
                assertEquals(first, billing.next().copy().iterator().next().sequence());
                billing.commit(first + 1);
            }
            assertEquals(List.of("orders/2 b"), read(bus, wanted));
        }
        try (Bus bus = open()) {
            CursorInfo cursor = bus.cursors().get(0);
            assertEquals("billing", cursor.name());
            assertEquals(List.of("orders/**"), cursor.filters());
            BusException other = assertThrows(
                    BusException.class, () -> read(bus, Subscribe.to("x/**").untilEnd().cursor("billing")));
            assertEquals(ErrorCode.CURSOR_HAS_OTHER_FILTERS, other.code());
            assertEquals(List.of("orders/2 b"), read(bus, wanted));
            bus.setCursor("billing", 1);
            assertEquals(List.of("orders/1 a", "orders/2 b"), read(bus, wanted));
            bus.dropCursor("billing");
            assertTrue(bus.cursors().isEmpty());
            BusException gone = assertThrows(BusException.class, () -> bus.dropCursor("billing"));
            assertEquals(ErrorCode.NO_SUCH_CURSOR, gone.code());
        }
    }

    @Test
    void aBatchIsCommittedAsAWhole() {
        Subscribe wanted = Subscribe.to("**").fromStart().untilEnd().cursor("all");
        try (Bus bus = open()) {
            bus.publish("a/b", Message.of("1"));
            bus.publish("a/b", Message.of("2"));
            try (Subscription all = bus.subscribe(wanted)) {
                for (Batch batch : all) {
                    all.commit(batch);
                }
            }
            bus.publish("a/b", Message.of("3"));
            assertEquals(List.of("a/b 3"), read(bus, wanted));
        }
    }

    @Test
    void fromLastGivesTheNewestOfEveryTopicThenWhatComes() {
        try (Bus bus = open()) {
            bus.publish("price/a", Message.of("1"));
            bus.publish("price/b", Message.of("2"));
            bus.publish("price/a", Message.of("3"));
            bus.publish("other/a", Message.of("4"));
            assertEquals(List.of("price/b 2", "price/a 3"), read(bus, Subscribe.to("price/**").fromLast().untilEnd()));
            try (Subscription prices = bus.subscribe(Subscribe.to("price/**").fromLast())) {
                List<String> got = new ArrayList<>();
                while (got.size() < 2) {
                    prices.next().forEach(message -> got.add(message.payloadText()));
                }
                bus.publish("price/c", Message.of("5"));
                while (got.size() < 3) {
                    prices.next().forEach(message -> got.add(message.payloadText()));
                }
                assertEquals(List.of("2", "3", "5"), got);
            }
        }
    }

    @Test
    void aSubscriptionBeginsAtASequenceOrATime() {
        try (Bus bus = open()) {
            bus.publish("a/b", Message.of("1"));
            long second = bus.publish("a/b", Message.of("2")).sequence();
            assertEquals(List.of("a/b 2"), read(bus, Subscribe.to("a/*").from(second).untilEnd()));
            Instant hourAgo = Instant.now().minusSeconds(3_600);
            assertEquals(2, read(bus, Subscribe.to("a/*").from(hourAgo).untilEnd()).size());
            assertEquals(List.of(), read(bus, Subscribe.to("a/*").from(hourAgo.plusSeconds(7_200)).untilEnd()));
        }
    }

    @Test
    void explainTellsBeforehandWhatASubscriptionWouldRead() {
        int messages = 3_000;
        byte[] payload = new byte[8 << 10];
        try (Bus bus = open();
                Publisher publisher = bus.publisher()) {
            // Three times what the tip holds.
            Block block = publisher.block();
            for (int n = 0; n < messages; n++) {
                while (!block.add("half/" + n % 2, payload)) {
                    publisher.publish(block);
                }
            }
            publisher.publish(block);
            Explanation half = bus.explain(Subscribe.to("half/1").fromStart());
            assertTrue(half.segments() + half.stores() > 0, half.toString());
            assertTrue(half.messages() > 0 && half.tipMessages() > 0, half.toString());
            assertTrue(half.messages() + half.tipMessages() <= messages, half.toString());
            assertTrue(half.bytesUseful() >= half.messages() * payload.length, half.toString());
            assertTrue(half.bytesToRead() > 0, half.toString());
            Explanation live = bus.explain(Subscribe.to("half/1").fromLive());
            assertEquals(0, live.bytesToRead(), live.toString());
            Explanation none = bus.explain(Subscribe.to("nothing/**").fromStart());
            assertEquals(0, none.messages() + none.tipMessages(), none.toString());
            BusException filter = assertThrows(BusException.class, () -> bus.explain(Subscribe.to("a/**/b")));
            assertEquals(ErrorCode.BAD_FILTER, filter.code());
        }
    }

    @Test
    void topicsComePageByPage() {
        int topics = 10_001;
        try (Bus bus = open();
                Publisher publisher = bus.publisher()) {
            Block block = publisher.block();
            for (int n = 0; n < topics; n++) {
                while (!block.add("many/" + n, Message.of("x"))) {
                    publisher.publish(block);
                }
            }
            publisher.publish(block);
            List<TopicInfo> all = bus.topics("many/*");
            assertEquals(topics, all.size());
            assertEquals("many/10000", all.get(topics - 1).topic());
            assertEquals(1, all.get(7).messages());
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
