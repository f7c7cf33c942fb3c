package io.arioso.voyage;

import java.time.Duration;
import java.util.List;

/**
 * A way by sea.
 *
 * @param km its length in kilometres, with the ways between the positions asked for and the water
 * @param passages canals and straits that it leads through, in order
 * @param fromWaterKm how far the position asked for is from the water where it begins
 * @param toWaterKm how far the water where it ends is from the position asked for
 * @param points its points; longitudes go on beyond 180 instead of jumping
 */
public record Route(double km, List<String> passages, double fromWaterKm, double toWaterKm, List<Position> points) {
    /** Kilometres in a nautical mile. */
    public static final double KM_PER_NAUTICAL_MILE = 1.852;

    /** Copies the lists. */
    public Route {
        passages = List.copyOf(passages);
        points = List.copyOf(points);
    }

    /**
     * Its length in nautical miles.
     *
     * @return nautical miles
     */
    public double nauticalMiles() {
        return km / KM_PER_NAUTICAL_MILE;
    }

    /**
     * How long it takes.
     *
     * @param knots the speed, above 0
     * @return the time it takes
     */
    public Duration at(double knots) {
        if (!(knots > 0 && Double.isFinite(knots))) {
            throw new IllegalArgumentException("a speed of " + knots + " knots; it must be above 0");
        }
        return Seconds.duration(nauticalMiles() / knots * 3600);
    }
}
