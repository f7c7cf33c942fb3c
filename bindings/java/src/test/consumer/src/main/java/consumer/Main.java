package consumer;

import io.arioso.Batch;
import io.arioso.Bus;
import io.arioso.Message;
import io.arioso.Received;
import io.arioso.Subscribe;
import io.arioso.Subscription;
import java.nio.file.Path;

/** A program of somebody who only names the dependency. */
public final class Main {
    private Main() {}

    public static void main(String[] arguments) {
        try (Bus bus = Bus.open(Path.of(arguments[0]))) {
            bus.publish("orders/1", Message.of("paid"));
            try (Subscription orders = bus.subscribe(Subscribe.to("orders/**").fromStart().untilEnd())) {
                for (Batch batch : orders) {
                    for (Received message : batch) {
                        System.out.println(message.topic() + " " + message.payloadText());
                    }
                }
            }
        }
    }
}
