package io.arioso;

/** What must have happened before a message is answered. */
public enum AckLevel {
    /** It is on disk and settled: kept whatever happens. The default. */
    DURABLE,
    /** It has its number. A crash may still lose it. */
    SEQUENCED
}
