package io.arioso.voyage;

import java.time.Instant;
import java.util.Objects;

/**
 * A voyage that is judged.
 *
 * @param position where the ship is
 * @param time when
 * @param destination where it should be
 * @param arrival at the latest then
 * @param maxKnots how fast it can go
 */
public record Voyage(Position position, Instant time, Position destination, Instant arrival, double maxKnots) {
    /** Refuses null. */
    public Voyage {
        Objects.requireNonNull(position, "position");
        Objects.requireNonNull(time, "time");
        Objects.requireNonNull(destination, "destination");
        Objects.requireNonNull(arrival, "arrival");
    }
}
