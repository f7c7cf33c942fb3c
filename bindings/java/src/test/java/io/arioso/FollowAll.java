package io.arioso;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;

/**
 * Publishes and follows so many messages, taking a byte array of each, and prints resident memory ten times on the way: {@code
 * FollowAll DIRECTORY MESSAGES}. Retention keeps the directory small.
 */
final class FollowAll {
    private static final int PAYLOAD_BYTES = 32;

    private FollowAll() {}

    static long residentKib() {
        try {
            for (String line : Files.readAllLines(Path.of("/proc/self/status"))) {
                if (line.startsWith("VmRSS:")) {
                    return Long.parseLong(line.replaceAll("[^0-9]", ""));
                }
            }
        } catch (IOException exception) {
            throw new IllegalStateException(exception);
        }
        throw new IllegalStateException("no VmRSS in /proc/self/status");
    }

    public static void main(String[] arguments) throws InterruptedException {
        long messages = Long.parseLong(arguments[1]);
        Map<String, String> settings =
                Map.of("segment-bytes", "8MiB", "tip-bytes", "16MiB", "retention-bytes", "256MiB");
        try (Bus bus = Bus.open(Path.of(arguments[0]), settings)) {
            Subscription all = bus.subscribe(Subscribe.to("flat/**"));
            Thread publishing = new Thread(() -> publish(bus, messages));
            publishing.start();
            long seen = 0;
            long bytes = 0;
            long next = messages / 10;
            while (seen < messages) {
                for (Received message : all.next()) {
                    bytes += message.payloadArray().length;
                    seen++;
                }
                if (seen >= next) {
                    System.out.println("messages " + seen + " resident " + residentKib() + " KiB");
                    next += messages / 10;
                }
            }
            publishing.join();
            System.out.println("seen " + seen + " bytes " + bytes);
        }
    }

    private static void publish(Bus bus, long messages) {
        String[] topics = new String[100];
        for (int n = 0; n < topics.length; n++) {
            topics[n] = "flat/" + n;
        }
        List<CompletableFuture<Ack>> open = new ArrayList<>();
        try (Publisher publisher = bus.publisher()) {
            Block block = publisher.block();
            for (long n = 0; n < messages; n++) {
                String topic = topics[(int) (n % topics.length)];
                // One in a thousand by itself, with everything a message may have.
                if (n % 1_000 == 0) {
                    Message message = Message.of(new byte[PAYLOAD_BYTES]).eventTime(n).header("n", new byte[8]);
                    open.add(publisher.publishAsync(topic, message));
                    continue;
                }
                while (!block.add(topic, new byte[PAYLOAD_BYTES])) {
                    open.add(publisher.publishAsync(block));
                }
                if (open.size() >= 32) {
                    open.forEach(CompletableFuture::join);
                    open.clear();
                }
            }
            publisher.publish(block);
        }
    }
}
