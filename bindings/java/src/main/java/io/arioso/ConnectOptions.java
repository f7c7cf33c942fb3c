package io.arioso;

import java.time.Duration;
import java.util.Objects;

/** How a connected bus behaves. It does not change; each method gives another one. */
public final class ConnectOptions {
    final String name;
    final long timeoutMs;
    final long unreachableMs;

    private ConnectOptions(String name, long timeoutMs, long unreachableMs) {
        this.name = name;
        this.timeoutMs = timeoutMs;
        this.unreachableMs = unreachableMs;
    }

    /**
     * What is meant to be right: 5 s for the first connection, 60 s to get back one that was cut.
     *
     * @return the options
     */
    public static ConnectOptions defaults() {
        return new ConnectOptions("", 0, 0);
    }

    private static long ms(String what, Duration time) {
        long ms = time.toMillis();
        if (ms <= 0) {
            throw BusException.argument(what + " of " + ms + " ms, at least 1 is wanted");
        }
        return ms;
    }

    /**
     * What the client calls itself.
     *
     * @param name its name
     * @return the options
     */
    public ConnectOptions name(String name) {
        return new ConnectOptions(Objects.requireNonNull(name, "name"), timeoutMs, unreachableMs);
    }

    /**
     * How long the first connection may take, tries included.
     *
     * @param time how long
     * @return the options
     */
    public ConnectOptions timeout(Duration time) {
        return new ConnectOptions(name, ms("a timeout", time), unreachableMs);
    }

    /**
     * How long it tries to get back a connection that was cut, before everything ends with {@link ErrorCode#UNREACHABLE}.
     *
     * @param time how long
     * @return the options
     */
    public ConnectOptions unreachableAfter(Duration time) {
        return new ConnectOptions(name, timeoutMs, ms("unreachable after", time));
    }
}
