package io.arioso.voyage;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Ways by sea, computed in this process. Any number of threads may ask one path finder at once; it starts none, and keeps what
 * it computed in one cache for all of them.
 *
 * <pre>{@code
 * try (PathFinder finder = PathFinder.oceans()) {
 *     Route route = finder.route(new Position(4.05, 51.98), new Position(103.85, 1.20), Options.avoiding("suez"));
 * }
 * }</pre>
 */
public final class PathFinder implements AutoCloseable {
    /** Ceiling of the cache if nothing else is asked for. */
    public static final long CACHE_BYTES = 64L << 20;

    private static final Cleaner CLEANER = Cleaner.create();

    private final long number;
    private final Cleaner.Cleanable closing;
    /** Names of passages by their numbers. */
    private final String[] passages;
    /** For each whether it can be avoided: a canal or a strait. */
    private final boolean[] avoidable;
    /** A bit for each that is closed by default. */
    private final long[] usuallyClosed = new long[2];

    private PathFinder(String network, long cacheBytes) {
        if (cacheBytes < 0) {
            throw new IllegalArgumentException("a cache of " + cacheBytes + " bytes; 0 or more are wanted");
        }
        Native.load();
        long opened = Native.open(network, cacheBytes);
        number = opened;
        closing = CLEANER.register(this, () -> Native.close(opened));
        String[] signed = Native.passages(opened);
        passages = new String[signed.length];
        avoidable = new boolean[signed.length];
        for (int at = 0; at < signed.length; at++) {
            avoidable[at] = signed[at].charAt(0) == '+';
            set(usuallyClosed, at, signed[at].charAt(1) == '-');
            passages[at] = signed[at].substring(2);
        }
    }

    /**
     * Over the network that comes with the library: the oceans of the whole globe.
     *
     * @return a path finder
     */
    public static PathFinder oceans() {
        return oceans(CACHE_BYTES);
    }

    /**
     * The same with a cache of another size.
     *
     * @param cacheBytes ceiling of the cache of answers, in bytes; 0 keeps nothing
     * @return a path finder
     */
    public static PathFinder oceans(long cacheBytes) {
        return new PathFinder(null, cacheBytes);
    }

    /**
     * Over another network.
     *
     * @param network a file that {@code voyage build-network} wrote, or GeoJSON lines
     * @param cacheBytes ceiling of the cache of answers, in bytes; 0 keeps nothing
     * @return a path finder
     */
    public static PathFinder open(Path network, long cacheBytes) {
        return new PathFinder(network.toString(), cacheBytes);
    }

    /**
     * Canals and straits that can be avoided.
     *
     * @return their names
     */
    public List<String> avoidable() {
        List<String> names = new ArrayList<>();
        for (int at = 0; at < passages.length; at++) {
            if (avoidable[at]) {
                names.add(passages[at]);
            }
        }
        return names;
    }

    /**
     * The shortest way through passages that are open by default.
     *
     * @param from where it begins
     * @param to where it ends
     * @return the route
     */
    public Route route(Position from, Position to) {
        return route(from, to, Options.USUAL);
    }

    /**
     * The shortest way.
     *
     * @param from where it begins
     * @param to where it ends
     * @param options what may be used
     * @return the route
     */
    public Route route(Position from, Position to, Options options) {
        long[] closed = closed(options);
        double[] told = Native.route(
                number, from.lon(), from.lat(), to.lon(), to.lat(), closed[0], closed[1], options.snapKmMax());
        int count = (int) told[3];
        List<String> through = new ArrayList<>(count);
        for (int at = 4; at < 4 + count; at++) {
            through.add(passages[(int) told[at]]);
        }
        List<Position> points = new ArrayList<>((told.length - 4 - count) / 2);
        for (int at = 4 + count; at + 1 < told.length; at += 2) {
            points.add(new Position(told[at], told[at + 1]));
        }
        return new Route(told[0], through, told[1], told[2], points);
    }

    /**
     * Whether a ship can be there in time, through passages that are open by default.
     *
     * @param voyage where it is and where it should be
     * @return the verdict
     */
    public Verdict feasible(Voyage voyage) {
        return feasible(voyage, Options.USUAL);
    }

    /**
     * Whether a ship can be there in time.
     *
     * @param voyage where it is and where it should be
     * @param options what may be used
     * @return the verdict
     */
    public Verdict feasible(Voyage voyage, Options options) {
        long[] closed = closed(options);
        Position from = voyage.position();
        Position to = voyage.destination();
        double time = Seconds.of(voyage.time());
        double arrival = Seconds.of(voyage.arrival());
        try {
            double[] told = Native.feasible(
                    number,
                    from.lon(),
                    from.lat(),
                    time,
                    to.lon(),
                    to.lat(),
                    arrival,
                    voyage.maxKnots(),
                    closed[0],
                    closed[1],
                    options.snapKmMax());
            return new Verdict(told[0] != 0, Seconds.instant(told[1]), Seconds.duration(told[2]), told[3], told[4] != 0);
        } finally {
            Reference.reachabilityFence(this); // not collected, and so closed, while it is asked
        }
    }

    /** The passages that are not used, a bit each. */
    private long[] closed(Options options) {
        if (options.avoid().isEmpty() && options.allow().isEmpty()) {
            return usuallyClosed;
        }
        long[] closed = usuallyClosed.clone();
        options.avoid().forEach(name -> set(closed, find(name), true));
        options.allow().forEach(name -> set(closed, find(name), false));
        return closed;
    }

    private static void set(long[] bits, int at, boolean is) {
        long bit = 1L << (at % 64);
        bits[at / 64] = is ? bits[at / 64] | bit : bits[at / 64] & ~bit;
    }

    private int find(String name) {
        for (int at = 0; at < passages.length; at++) {
            if (avoidable[at] && passages[at].equals(name)) {
                return at;
            }
        }
        String text = "no passage is named " + name + "; there are " + String.join(", ", avoidable());
        throw new VoyageException(VoyageException.Reason.ARGUMENT, text, null);
    }

    /** Lets go of the network. Threads that are asking get their answers; later calls fail. May be called twice. */
    @Override
    public void close() {
        closing.clean();
    }
}
