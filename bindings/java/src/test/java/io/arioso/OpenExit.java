package io.arioso;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;

/** Ends a process while everything is open: {@code OpenExit WHERE return|exit|halt|wait}. Prints what was acknowledged. */
final class OpenExit {
    private static final int ACKNOWLEDGED = 300;

    private OpenExit() {}

    private static void daemon(Runnable work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (BusException closed) {
                // The process ends.
            }
        });
        thread.setDaemon(true);
        thread.start();
    }

    public static void main(String[] arguments) throws InterruptedException {
        Bus bus = arguments[0].contains(":") && !Path.of(arguments[0]).isAbsolute()
                ? Bus.connect(arguments[0])
                : Bus.open(Path.of(arguments[0]), BusSuite.SMALL);
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        CountDownLatch acknowledged = new CountDownLatch(ACKNOWLEDGED);
        for (int n = 0; n < 2; n++) {
            String topic = "exit/" + n;
            daemon(() -> {
                Publisher publisher = bus.publisher(topic);
                for (int m = 0; true; m++) {
                    String text = topic + " " + m;
                    publisher.publishAsync(topic, Message.of(text)).thenAccept(ack -> {
                        out.println("acknowledged " + ack.sequence() + " " + text);
                        acknowledged.countDown();
                    });
                }
            });
        }
        daemon(() -> {
            for (Batch batch : bus.subscribe(Subscribe.to("**"))) {
                batch.forEach(Received::payloadArray);
            }
        });
        daemon(() -> bus.subscribe(Subscribe.to("nothing/ever")).next());
        acknowledged.await();
        switch (arguments[1]) {
            case "return" -> {}
            case "exit" -> System.exit(0);
            case "halt" -> Runtime.getRuntime().halt(0);
            default -> new CountDownLatch(1).await();
        }
    }
}
