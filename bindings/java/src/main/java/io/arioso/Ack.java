package io.arioso;

/**
 * Where a message, or a block of them, was stored.
 *
 * @param sequence sequence of the first
 * @param last sequence of the last
 * @param messages how many
 * @param level the level they were answered at
 */
public record Ack(long sequence, long last, int messages, AckLevel level) {
    static Ack of(long sequence, long last, long levelAndMessages) {
        AckLevel level = levelAndMessages >>> 32 == 0 ? AckLevel.DURABLE : AckLevel.SEQUENCED;
        return new Ack(sequence, last, (int) levelAndMessages, level);
    }
}
