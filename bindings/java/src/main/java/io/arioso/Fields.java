package io.arioso;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;

/** The small encodings in which arguments and rows cross: little-endian fields, one behind the other. */
final class Fields {
    private ByteBuffer out = ByteBuffer.allocate(128).order(ByteOrder.LITTLE_ENDIAN);

    private ByteBuffer room(int bytes) {
        if (out.remaining() < bytes) {
            int size = Math.max(Math.addExact(out.position(), bytes), out.capacity() * 2);
            out = ByteBuffer.wrap(Arrays.copyOf(out.array(), size)).order(ByteOrder.LITTLE_ENDIAN).position(out.position());
        }
        return out;
    }

    Fields u8(int value) {
        room(1).put((byte) value);
        return this;
    }

    Fields i64(long value) {
        room(8).putLong(value);
        return this;
    }

    Fields u16(int value) {
        room(2).putShort((short) value);
        return this;
    }

    /** Bytes behind their count. */
    Fields part(String what, byte[] bytes) {
        if (bytes.length > 0xFFFF) {
            throw BusException.argument(what + " of " + bytes.length + " bytes, at most 65535 are taken");
        }
        u16(bytes.length);
        room(bytes.length).put(bytes);
        return this;
    }

    Fields text(String what, String text) {
        return part(what, text.getBytes(StandardCharsets.UTF_8));
    }

    byte[] bytes() {
        return Arrays.copyOf(out.array(), out.position());
    }

    static ByteBuffer rows(byte[] bytes) {
        return ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN);
    }

    static String text(ByteBuffer rows) {
        byte[] bytes = new byte[rows.getShort() & 0xFFFF];
        rows.get(bytes);
        return new String(bytes, StandardCharsets.UTF_8);
    }
}
