package io.arioso;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** The same bus on a server, a process of its own. */
class ConnectedTest extends BusSuite {
    private Server server;

    @Override
    Bus open() {
        if (server == null) {
            server = Server.start(dir.resolve("bus"));
        }
        return Bus.connect(server.address());
    }

    @AfterEach
    void stop() {
        if (server != null) {
            server.close();
        }
    }

    @Test
    void aSubscriptionAndAPublisherGoOnWhenTheServerIsKilledAndStartedAgain() {
        try (Bus bus = open();
                Publisher named = bus.publisher("steady");
                Subscription all = bus.subscribe(Subscribe.to("**").fromStart())) {
            named.publish("a/b", Message.of("1"));
            assertEquals("1", all.next().iterator().next().payloadText());
            server.kill();
            CompletableFuture<Ack> second = named.publishAsync("a/b", Message.of("2"));
            server = Server.start(dir.resolve("bus"), server.address());
            second.join();
            assertEquals("2", all.next().iterator().next().payloadText());
        }
    }
}
