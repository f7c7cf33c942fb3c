package io.arioso.voyage;

/**
 * A position in degrees.
 *
 * @param lon longitude, east is positive
 * @param lat latitude, north is positive
 */
public record Position(double lon, double lat) {
    /** Refuses what is not on the globe. */
    public Position {
        // Written so that a number that is none is refused too.
        if (!(Math.abs(lon) <= 540 && Math.abs(lat) <= 90)) {
            throw new IllegalArgumentException("no position: " + lon + ", " + lat + "; longitude then latitude in degrees");
        }
    }
}
