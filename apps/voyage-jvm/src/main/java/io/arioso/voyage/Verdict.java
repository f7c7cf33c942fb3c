package io.arioso.voyage;

import java.time.Duration;
import java.time.Instant;

/**
 * Whether a ship can be there in time.
 *
 * @param feasible yes or no
 * @param earliestArrival at full speed; where the great circle alone is too long, no earlier than this
 * @param margin time to spare; negative when late
 * @param km the distance that it rests on
 * @param byGreatCircle whether the great circle settled it, without a route
 */
public record Verdict(boolean feasible, Instant earliestArrival, Duration margin, double km, boolean byGreatCircle) {}
