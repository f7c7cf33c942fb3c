package io.arioso.voyage;

import java.time.Duration;
import java.time.Instant;

/** Between Java's times and seconds as numbers. */
final class Seconds {
    private static final double NANOS = 1e9;

    private Seconds() {}

    static double of(Instant time) {
        return time.getEpochSecond() + time.getNano() / NANOS;
    }

    static Duration duration(double seconds) {
        double whole = Math.floor(seconds);
        return Duration.ofSeconds((long) whole, (long) ((seconds - whole) * NANOS));
    }

    /** Later than Java can tell is the latest that it can. */
    static Instant instant(double seconds) {
        if (seconds >= Instant.MAX.getEpochSecond()) {
            return Instant.MAX;
        }
        return Instant.EPOCH.plus(duration(seconds));
    }
}
