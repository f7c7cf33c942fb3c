package io.arioso;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Processes that end with open buses, busy in all directions. */
@Timeout(120)
class ExitTest {
    @TempDir
    Path dir;

    @ParameterizedTest
    @ValueSource(strings = {"return", "exit", "halt", "killed"})
    void aProcessThatEndsWithAnOpenEmbeddedBusLosesNothingAcknowledged(String how) throws Exception {
        Path data = dir.resolve("bus");
        Child child = run(data.toString(), how);
        try (Bus bus = Bus.open(data, BusSuite.SMALL)) {
            check(bus, child);
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"return", "exit", "halt", "killed"})
    void aProcessThatEndsWithAnOpenConnectionLosesNothingAcknowledged(String how) throws Exception {
        try (Server server = Server.start(dir.resolve("bus"));
                Bus bus = Bus.connect(server.address())) {
            check(bus, run(server.address(), how));
        }
    }

    private Child run(String where, String how) throws IOException, InterruptedException {
        List<String> command = Child.java(List.of("-Xcheck:jni"), Child.TEST_PATH, "io.arioso.OpenExit", where, how);
        Process process = Child.start(dir, command);
        if (how.equals("killed")) {
            Path output = dir.resolve("output");
            while (process.isAlive() && Files.size(output) < 10_000) {
                Thread.onSpinWait();
            }
            process.destroyForcibly();
        }
        Child child = Child.end(dir, process);
        assertEquals(how.equals("killed") ? 128 + 9 : 0, child.exit(), child.output());
        assertFalse(child.output().contains("SIG"), child.output());
        try (var files = Files.list(dir)) {
            assertEquals(List.of(), files.filter(file -> file.toString().contains("hs_err")).toList());
        }
        return child;
    }

    private static void check(Bus bus, Child child) {
        Map<String, Long> stored = new HashMap<>();
        try (Subscription all = bus.subscribe(Subscribe.to("**").fromStart().untilEnd())) {
            for (Batch batch : all) {
                for (Received message : batch) {
                    assertEquals(null, stored.put(message.payloadText(), message.sequence()), "stored twice");
                }
            }
        }
        String[] lines = child.output().substring(0, child.output().lastIndexOf('\n')).split("\n");
        int acknowledged = 0;
        for (String line : lines) {
            if (line.startsWith("acknowledged ")) {
                String[] words = line.split(" ", 3);
                assertEquals(Long.parseLong(words[1]), stored.get(words[2]), line);
                acknowledged++;
            }
        }
        assertTrue(acknowledged >= 100, acknowledged + " acknowledged");
    }
}
