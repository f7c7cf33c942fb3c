package io.arioso;

import java.time.Instant;
import java.util.List;

/** What to subscribe to and from where. It does not change; each method gives another one. */
public final class Subscribe {
    private static final int START = 0;
    private static final int LIVE = 1;
    private static final int SEQUENCE = 2;
    private static final int TIME = 3;
    private static final int LAST = 4;

    private final List<String> filters;
    private final int begin;
    private final long value;
    private final boolean untilEnd;
    private final long creditBytes;
    private final String cursor;

    private Subscribe(
            List<String> filters, int begin, long value, boolean untilEnd, long creditBytes, String cursor) {
        this.filters = filters;
        this.begin = begin;
        this.value = value;
        this.untilEnd = untilEnd;
        this.creditBytes = creditBytes;
        this.cursor = cursor;
    }

    /**
     * Topics ({@code a/b}), subtrees ({@code a/**}) and patterns ({@code a/*}{@code /c}), live. A message that matches several is
     * delivered once.
     *
     * @param filters the filters, up to 16,384
     * @return what to subscribe to
     */
    public static Subscribe to(String... filters) {
        return to(List.of(filters));
    }

    /**
     * As {@link #to(String...)}.
     *
     * @param filters the filters
     * @return what to subscribe to
     */
    public static Subscribe to(List<String> filters) {
        return new Subscribe(List.copyOf(filters), LIVE, 0, false, 0, "");
    }

    private Subscribe begin(int begin, long value) {
        return new Subscribe(filters, begin, value, untilEnd, creditBytes, cursor);
    }

    /**
     * From the first message that is kept.
     *
     * @return what to subscribe to
     */
    public Subscribe fromStart() {
        return begin(START, 0);
    }

    /**
     * With the next message; the default.
     *
     * @return what to subscribe to
     */
    public Subscribe fromLive() {
        return begin(LIVE, 0);
    }

    /**
     * From the first message at or above a sequence.
     *
     * @param sequence the sequence
     * @return what to subscribe to
     */
    public Subscribe from(long sequence) {
        return begin(SEQUENCE, sequence);
    }

    /**
     * From the first message whose timestamp is not below this one.
     *
     * @param time the time
     * @return what to subscribe to
     */
    public Subscribe from(Instant time) {
        long seconds = Math.multiplyExact(time.getEpochSecond(), 1_000_000_000L);
        return begin(TIME, Math.addExact(seconds, time.getNano()));
    }

    /**
     * With the newest message of every matching topic, in order, then live.
     *
     * @return what to subscribe to
     */
    public Subscribe fromLast() {
        return begin(LAST, 0);
    }

    /**
     * Ends behind what was acknowledged when the subscription began.
     *
     * @return what to subscribe to
     */
    public Subscribe untilEnd() {
        return new Subscribe(filters, begin, value, true, creditBytes, cursor);
    }

    /**
     * Holds a cursor: begins where it stands, and can {@link Subscription#commit commit}. A new cursor begins where this says.
     *
     * @param name the cursor's name
     * @return what to subscribe to
     */
    public Subscribe cursor(String name) {
        return new Subscribe(filters, begin, value, untilEnd, creditBytes, name);
    }

    /**
     * Lets this many bytes wait in memory for the consumer; one longer message may come on top.
     *
     * @param bytes how many; 4 MiB if not given
     * @return what to subscribe to
     */
    public Subscribe creditBytes(long bytes) {
        if (bytes <= 0) {
            throw BusException.argument("a credit of " + bytes + " bytes, at least 1 is wanted");
        }
        return new Subscribe(filters, begin, value, untilEnd, bytes, cursor);
    }

    byte[] bytes() {
        Fields fields = new Fields().u8(begin).i64(value).u8(untilEnd ? 1 : 0).i64(creditBytes);
        fields.text("a cursor's name", cursor);
        for (String filter : filters) {
            fields.text("a filter", filter);
        }
        return fields.bytes();
    }
}
