package io.arioso;

import org.junit.jupiter.api.AfterEach;

/** Closing a bus on a server. */
class ClosingConnectedTest extends ClosingSuite {
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
}
