package io.arioso.bench;

import io.arioso.Ack;
import io.arioso.Block;
import io.arioso.Bus;
import io.arioso.Publisher;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OperationsPerInvocation;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/** Publishes durably on a bus of its own in this process, which retention keeps small. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(1)
@Warmup(iterations = 2, time = 3)
@Measurement(iterations = 3, time = 5)
public class Publish {
    private static final int TOPICS = 1_000;
    private static final int MESSAGES = 10_000;
    /** As the Rust example has it. */
    private static final int BLOCKS_IN_FLIGHT = 16;

    /** Bytes of a payload. */
    @Param({"32", "200"})
    public int bytes;

    private final String[] topics = new String[TOPICS];
    private byte[] payload;
    private Path directory;
    private Bus bus;
    private Publisher publisher;

    @Setup(Level.Trial)
    public void open() throws IOException {
        for (int n = 0; n < TOPICS; n++) {
            topics[n] = "rates/" + n;
        }
        payload = new byte[bytes];
        directory = Files.createTempDirectory("arioso-bench-");
        bus = Bus.open(directory, Map.of("retention-bytes", "2GiB"));
        publisher = bus.publisher();
    }

    @TearDown(Level.Trial)
    public void close() throws IOException {
        bus.close();
        try (var files = Files.walk(directory)) {
            for (Path file : files.sorted(java.util.Comparator.reverseOrder()).toList()) {
                Files.delete(file);
            }
        }
    }

    /** Each waits for its answer. */
    @Benchmark
    public Ack one() {
        return publisher.publish("rates/1", payload);
    }

    /** A future for each. */
    @Benchmark
    @OperationsPerInvocation(MESSAGES)
    public Ack futures() {
        CompletableFuture<Ack> last = null;
        for (int n = 0; n < MESSAGES; n++) {
            last = publisher.publishAsync(topics[n % TOPICS], payload);
        }
        return last.join();
    }

    /** Blocks of 10. */
    @Benchmark
    @OperationsPerInvocation(MESSAGES)
    public Ack smallBlocks() {
        return blocks(10);
    }

    /** Blocks of 1,000. */
    @Benchmark
    @OperationsPerInvocation(MESSAGES)
    public Ack largeBlocks() {
        return blocks(1_000);
    }

    private Ack blocks(int messages) {
        ArrayDeque<CompletableFuture<Ack>> open = new ArrayDeque<>();
        Block block = publisher.block();
        for (int n = 0; n < MESSAGES; n++) {
            while (!block.add(topics[n % TOPICS], payload)) {
                open.add(publisher.publishAsync(block));
            }
            if (block.size() == messages || n + 1 == MESSAGES) {
                open.add(publisher.publishAsync(block));
            }
            while (open.size() >= BLOCKS_IN_FLIGHT) {
                open.remove().join();
            }
        }
        Ack last = null;
        for (CompletableFuture<Ack> future : open) {
            last = future.join();
        }
        return last;
    }
}
