package io.arioso;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** A server, a process of its own: the command line that the build put beside the jar. */
final class Server implements AutoCloseable {
    private static final Pattern LISTEN = Pattern.compile("\"listen\":\"([^\"]+)\"");

    private final Process process;
    private final String address;

    private Server(Process process, String address) {
        this.process = process;
        this.address = address;
    }

    static Server start(Path data) {
        return start(data, "127.0.0.1:0");
    }

    /** Waits until it is ready. */
    static Server start(Path data, String listen) {
        List<String> command = List.of(
                System.getProperty("arioso.server"),
                "serve",
                "--data=" + data,
                "--listen=" + listen,
                "--http=127.0.0.1:0",
                "--segment-bytes=1MiB",
                "--tip-bytes=8MiB");
        try {
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.redirectError(data.resolveSibling("server.log").toFile());
            Process process = builder.start();
            BufferedReader out = process.inputReader(StandardCharsets.UTF_8);
            String line = out.readLine();
            Matcher found = LISTEN.matcher(line == null ? "" : line);
            if (!found.find()) {
                process.destroyForcibly();
                throw new IllegalStateException(command + " is not ready: " + line);
            }
            return new Server(process, found.group(1));
        } catch (IOException exception) {
            throw new UncheckedIOException(exception);
        }
    }

    String address() {
        return address;
    }

    void kill() {
        process.destroyForcibly();
        await();
    }

    private void await() {
        try {
            if (!process.waitFor(30, TimeUnit.SECONDS)) {
                process.destroyForcibly();
                throw new IllegalStateException("the server does not stop");
            }
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        process.destroy();
        await();
    }
}
