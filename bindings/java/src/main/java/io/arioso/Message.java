package io.arioso;

import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;

/** A message to publish: a payload and what else it needs. It does not change; each method gives another one. */
public final class Message {
    private static final int HAS_EVENT_TIME = 1;
    private static final int HAS_CONDITION = 2;

    final byte[] payload;
    final int offset;
    final int count;
    final AckLevel level;
    private final Long eventTime;
    private final String filter;
    private final long newest;
    private final List<Header> headers;

    private Message(
            byte[] payload,
            int offset,
            int count,
            AckLevel level,
            Long eventTime,
            String filter,
            long newest,
            List<Header> headers) {
        this.payload = payload;
        this.offset = offset;
        this.count = count;
        this.level = level;
        this.eventTime = eventTime;
        this.filter = filter;
        this.newest = newest;
        this.headers = headers;
    }

    /**
     * A message with nothing but a payload. The array is not copied before it is published.
     *
     * @param payload its bytes
     * @return the message
     */
    public static Message of(byte[] payload) {
        return new Message(payload, 0, payload.length, AckLevel.DURABLE, null, null, 0, List.of());
    }

    /**
     * A message whose payload is a text, in UTF-8.
     *
     * @param payload its text
     * @return the message
     */
    public static Message of(String payload) {
        return of(payload.getBytes(StandardCharsets.UTF_8));
    }

    /**
     * A message with what remains in a buffer, whose position is left as it is. A buffer without an array is copied.
     *
     * @param payload its bytes
     * @return the message
     */
    public static Message of(ByteBuffer payload) {
        if (payload.hasArray()) {
            int offset = payload.arrayOffset() + payload.position();
            return new Message(payload.array(), offset, payload.remaining(), AckLevel.DURABLE, null, null, 0, List.of());
        }
        byte[] bytes = new byte[payload.remaining()];
        payload.duplicate().get(bytes);
        return of(bytes);
    }

    /**
     * Answered at this level. In a block or an atomic batch the block's level counts.
     *
     * @param level the level
     * @return the message
     */
    public Message level(AckLevel level) {
        Objects.requireNonNull(level, "level");
        return new Message(payload, offset, count, level, eventTime, filter, newest, headers);
    }

    /**
     * With an event time.
     *
     * @param unixNanos when it happened
     * @return the message
     */
    public Message eventTime(long unixNanos) {
        return new Message(payload, offset, count, level, unixNanos, filter, newest, headers);
    }

    /**
     * Taken only if the newest message that matches the filter is this one; else {@link ErrorCode#CONDITION_FAILED}, whose
     * detail a is the newest.
     *
     * @param filter an exact topic or a subtree
     * @param newest sequence of its newest message, 0 for none
     * @return the message
     */
    public Message expect(String filter, long newest) {
        Objects.requireNonNull(filter, "filter");
        return new Message(payload, offset, count, level, eventTime, filter, newest, headers);
    }

    /**
     * With one more header.
     *
     * @param key its key
     * @param value its value
     * @return the message
     */
    public Message header(String key, byte[] value) {
        List<Header> more = new ArrayList<>(headers);
        more.add(new Header(key, value));
        return new Message(payload, offset, count, level, eventTime, filter, newest, List.copyOf(more));
    }

    /** Everything besides the payload, as it crosses; null for nothing. */
    byte[] extras() {
        if (eventTime == null && filter == null && headers.isEmpty()) {
            return null;
        }
        Fields fields = new Fields();
        fields.u8((eventTime == null ? 0 : HAS_EVENT_TIME) | (filter == null ? 0 : HAS_CONDITION));
        if (eventTime != null) {
            fields.i64(eventTime);
        }
        if (filter != null) {
            fields.i64(newest).text("a filter", filter);
        }
        if (headers.size() > 0xFFFF) {
            throw BusException.argument(headers.size() + " headers, at most 65535 are taken");
        }
        fields.u16(headers.size());
        for (Header header : headers) {
            fields.text("a header's key", header.key()).part("a header's value", header.value());
        }
        return fields.bytes();
    }

    /**
     * A header of a message.
     *
     * @param key its key
     * @param value its value
     */
    public record Header(String key, byte[] value) {
        /**
         * A header.
         *
         * @param key its key
         * @param value its value
         */
        public Header {
            Objects.requireNonNull(key, "key");
            Objects.requireNonNull(value, "value");
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Header header && key.equals(header.key) && Arrays.equals(value, header.value);
        }

        @Override
        public int hashCode() {
            return 31 * key.hashCode() + Arrays.hashCode(value);
        }
    }
}
