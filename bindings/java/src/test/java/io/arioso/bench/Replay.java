package io.arioso.bench;

import io.arioso.Batch;
import io.arioso.Bus;
import io.arioso.Received;
import io.arioso.Subscribe;
import io.arioso.Subscription;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Warmup;

/**
 * Reads everything on the bus that the system property {@code arioso.bench.bus} names, a directory or host:port, filled by the
 * Rust example {@code rates}, which also reads it for comparison.
 */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.SingleShotTime)
@OutputTimeUnit(TimeUnit.MILLISECONDS)
@Fork(1)
@Warmup(iterations = 2)
@Measurement(iterations = 5)
public class Replay {
    /** What may wait for the reader: small batches and large ones. */
    @Param({"65536", "4194304"})
    public long creditBytes;

    private Bus bus;

    @Setup(Level.Trial)
    public void open() {
        bus = open(System.getProperty("arioso.bench.bus"));
    }

    static Bus open(String place) {
        Path directory = Path.of(place);
        return Files.isDirectory(directory) ? Bus.open(directory) : Bus.connect(place);
    }

    @TearDown(Level.Trial)
    public void close() {
        bus.close();
    }

    private Subscription subscribe() {
        return bus.subscribe(Subscribe.to("rates/**").fromStart().untilEnd().creditBytes(creditBytes));
    }

    /** Batches are taken, messages not looked at. */
    @Benchmark
    public long batches() {
        long start = System.nanoTime();
        long count = 0;
        long batches = 0;
        try (Subscription subscription = subscribe()) {
            for (Batch batch : subscription) {
                count += batch.size();
                batches++;
            }
        }
        tell("batches taken", start, count, batches, 0);
        return count;
    }

    /** Sequence and size of each message are looked at. */
    @Benchmark
    public long messages() {
        long start = System.nanoTime();
        long count = 0;
        long batches = 0;
        long digest = 0;
        try (Subscription subscription = subscribe()) {
            for (Batch batch : subscription) {
                batches++;
                for (Received message : batch) {
                    digest = digest * 31 + message.sequence();
                    digest += message.payloadBytes();
                    count++;
                }
            }
        }
        tell("each message seen", start, count, batches, digest);
        return digest;
    }

    private static void tell(String how, long start, long count, long batches, long digest) {
        double seconds = (System.nanoTime() - start) / 1e9;
        System.out.printf(
                "java replay, %s: %d messages in %d batches, %.0f/s, digest %s%n",
                how, count, batches, count / seconds, Long.toUnsignedString(digest));
    }
}
