package io.arioso.voyage;

import java.util.List;

/**
 * How a route may be.
 *
 * @param avoid canals and straits that are not used
 * @param allow canals and straits that are used although they are closed by default
 * @param snapKmMax farthest that an end may be from water, in kilometres
 */
public record Options(List<String> avoid, List<String> allow, double snapKmMax) {
    /** What is used if nothing else is asked for. */
    public static final Options USUAL = new Options(List.of(), List.of(), 30);

    /** Copies the lists. */
    public Options {
        avoid = List.copyOf(avoid);
        allow = List.copyOf(allow);
        if (!(snapKmMax >= 0)) {
            throw new IllegalArgumentException("snapKmMax is " + snapKmMax + "; 0 or more kilometres are wanted");
        }
    }

    /**
     * The usual options without these passages.
     *
     * @param names canals and straits
     * @return the options
     */
    public static Options avoiding(String... names) {
        return new Options(List.of(names), List.of(), USUAL.snapKmMax);
    }

    /**
     * The usual options with these passages too.
     *
     * @param names canals and straits
     * @return the options
     */
    public static Options allowing(String... names) {
        return new Options(List.of(), List.of(names), USUAL.snapKmMax);
    }
}
