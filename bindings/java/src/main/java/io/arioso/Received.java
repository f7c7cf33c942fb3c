package io.arioso;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalLong;

/**
 * A delivered message, seen in place. The one object of a walk through a batch, moved from message to message: what is to be kept
 * is to be taken out.
 *
 * <pre>
 *  0 u32 payload bytes   4 u32 topic        8 u64 sequence   16 i64 timestamp
 * 24 u32 publisher      28 u16 flags       30 u16 extension bytes   32 extensions, payload, padding to 8
 * </pre>
 */
public final class Received {
    static final int HEADER_BYTES = 32;
    private static final int ALIGN = 8;
    private static final int FLAG_CONDITIONAL = 2;
    private static final int FLAG_ATOMIC_FIRST = 4;
    private static final int FLAG_ATOMIC_LAST = 8;
    private static final int EXTENSION_HEADERS = 1;
    private static final int EXTENSION_EVENT_TIME = 2;

    private final Batch batch;
    private final ByteBuffer records;
    private int index = -1;
    private int at;
    private int end;

    Received(Batch batch, ByteBuffer records) {
        this.batch = batch;
        this.records = records;
    }

    /** Moves to the next record; false behind the last. */
    boolean advance() {
        if (end == records.limit()) {
            return false;
        }
        at = end;
        long left = records.limit() - at;
        long bytes = left < HEADER_BYTES ? HEADER_BYTES : (long) HEADER_BYTES + extensionBytes() + payloadBytesUnsigned();
        bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        if (bytes > left) {
            String text = "a delivered record of " + bytes + " bytes, " + left + " are left";
            throw new BusException(ErrorCode.PROTOCOL, 0, 0, text);
        }
        end = at + (int) bytes;
        index++;
        return true;
    }

    private long payloadBytesUnsigned() {
        return records.getInt(at) & 0xFFFF_FFFFL;
    }

    private int extensionBytes() {
        return records.getShort(at + 30) & 0xFFFF;
    }

    private int flags() {
        return records.getShort(at + 28);
    }

    private int payloadAt() {
        return at + HEADER_BYTES + extensionBytes();
    }

    /** Its place in the stream. */
    public long sequence() {
        return records.getLong(at + 8);
    }

    /** When it got its number, unix nanoseconds. */
    public long timestamp() {
        return records.getLong(at + 16);
    }

    /** Its topic. */
    public String topic() {
        return batch.topic(index, topicId());
    }

    /** Its topic's number in the stream, never given to another topic. */
    public int topicId() {
        return records.getInt(at + 4);
    }

    /** Its publisher's number in the stream, 0 for an anonymous one. */
    public int publisherId() {
        return records.getInt(at + 24);
    }

    /** Whether it was published under a condition. */
    public boolean isConditional() {
        return (flags() & FLAG_CONDITIONAL) != 0;
    }

    /** Whether it is the first of an atomic batch. */
    public boolean isAtomicFirst() {
        return (flags() & FLAG_ATOMIC_FIRST) != 0;
    }

    /** Whether it is the last of an atomic batch. */
    public boolean isAtomicLast() {
        return (flags() & FLAG_ATOMIC_LAST) != 0;
    }

    /** Bytes of its payload. */
    public int payloadBytes() {
        return records.getInt(at);
    }

    /** One byte of its payload. */
    public byte payloadByte(int offset) {
        if (offset < 0 || offset >= payloadBytes()) {
            throw new IndexOutOfBoundsException("byte " + offset + " of a payload of " + payloadBytes());
        }
        return records.get(payloadAt() + offset);
    }

    /** Its payload in place: a read-only view that shows this message until the subscription is asked for the next batch. */
    public ByteBuffer payload() {
        return records.slice(payloadAt(), payloadBytes()).asReadOnlyBuffer();
    }

    /** Its payload, copied. */
    public byte[] payloadArray() {
        byte[] payload = new byte[payloadBytes()];
        records.get(payloadAt(), payload);
        return payload;
    }

    /** Its payload as UTF-8 text. */
    public String payloadText() {
        return new String(payloadArray(), StandardCharsets.UTF_8);
    }

    /** Its event time, unix nanoseconds, where given. */
    public OptionalLong eventTime() {
        ByteBuffer found = extension(EXTENSION_EVENT_TIME);
        return found == null || found.remaining() < 8 ? OptionalLong.empty() : OptionalLong.of(found.getLong());
    }

    /** Its headers, copied. */
    public List<Message.Header> headers() {
        ByteBuffer found = extension(EXTENSION_HEADERS);
        List<Message.Header> headers = new ArrayList<>();
        while (found != null && found.hasRemaining()) {
            byte[] key = part(found);
            byte[] value = key == null ? null : part(found);
            if (value == null) {
                break;
            }
            headers.add(new Message.Header(new String(key, StandardCharsets.UTF_8), value));
        }
        return headers;
    }

    private static byte[] part(ByteBuffer from) {
        if (from.remaining() < 2) {
            return null;
        }
        int bytes = from.getShort() & 0xFFFF;
        if (from.remaining() < bytes) {
            return null;
        }
        byte[] part = new byte[bytes];
        from.get(part);
        return part;
    }

    /** An extension's value; null if it has none or what lies there does not parse. */
    private ByteBuffer extension(int wanted) {
        int extensions = extensionBytes();
        if (extensions == 0) {
            return null;
        }
        ByteBuffer from = records.slice(at + HEADER_BYTES, extensions).order(ByteOrder.LITTLE_ENDIAN);
        while (from.remaining() >= 4) {
            int type = from.getShort() & 0xFFFF;
            int bytes = from.getShort() & 0xFFFF;
            if (bytes > from.remaining()) {
                return null;
            }
            if (type == wanted) {
                return from.slice(from.position(), bytes).order(ByteOrder.LITTLE_ENDIAN);
            }
            from.position(from.position() + bytes);
        }
        return null;
    }

    @Override
    public String toString() {
        return index < 0 ? "before the first message" : sequence() + " " + topic() + " (" + payloadBytes() + " bytes)";
    }
}
