package io.arioso;

/**
 * The error numbers a {@link BusException} can have. Those from 0 on are the wire's, listed in docs/protocol.md; those below 0
 * never travel. A number, once given, never changes its meaning.
 */
public final class ErrorCode {
    /** Done. */
    public static final int OK = 0;
    /** The bytes do not parse. */
    public static final int BAD_FRAME = 1;
    /** The frame is over the receiver's frame bytes max. */
    public static final int FRAME_TOO_LARGE = 2;
    /** The frame's type is not known. */
    public static final int UNKNOWN_FRAME = 3;
    /** No common protocol version. */
    public static final int VERSION = 4;
    /** The position or hello names another stream. */
    public static final int WRONG_STREAM = 5;
    /** Reserved. */
    public static final int UNAUTHORISED = 6;
    /** The server stops cleanly. */
    public static final int SHUTTING_DOWN = 7;
    /** The server replays. */
    public static final int NOT_READY = 8;
    /** The journal is lost; the server stops. */
    public static final int INTERNAL = 9;
    /** The topic can't be published on. */
    public static final int BAD_TOPIC = 10;
    /** The filter does not parse. */
    public static final int BAD_FILTER = 11;
    /** A filter set has at most 16384 filters. */
    public static final int TOO_MANY_FILTERS = 12;
    /** Topics-max is reached. */
    public static final int TOO_MANY_TOPICS = 13;
    /** Publishers-max is reached. */
    public static final int TOO_MANY_PUBLISHERS = 14;
    /** Subscriptions-max of this connection is reached. */
    public static final int TOO_MANY_SUBSCRIPTIONS = 15;
    /** The payload is over payload-bytes-max. */
    public static final int PAYLOAD_TOO_LARGE = 16;
    /** Header, extension or length of a record is wrong. */
    public static final int BAD_RECORD = 17;
    /** A ceiling is reached; the number is not consumed. */
    public static final int BUSY = 18;
    /** Another publisher sequence is due. */
    public static final int EXPECTED = 19;
    /** That publisher sequence was consumed without a message. */
    public static final int NOT_STORED = 20;
    /** Below the window of remembered publisher sequences. */
    public static final int TOO_OLD = 21;
    /** The disk is full; the number is not consumed. */
    public static final int DISK_FULL = 22;
    /** Known not to be durable; voided. */
    public static final int FAILED = 23;
    /** The publisher's epoch is closed. */
    public static final int REOPEN = 24;
    /** Another holder opened this publisher or cursor. */
    public static final int FENCED = 25;
    /** The outcome will not be known on this connection. */
    public static final int UNKNOWN = 26;
    /** The newest matching message is another one. */
    public static final int CONDITION_FAILED = 27;
    /** An atomic batch has at most 4096 messages and 16 MiB. */
    public static final int ATOMIC_BATCH_TOO_LARGE = 28;
    /** The start position can't be used. */
    public static final int BAD_POSITION = 29;
    /** A part of history can't be read. */
    public static final int DAMAGED = 30;
    /** No cursor has this name. */
    public static final int NO_SUCH_CURSOR = 31;
    /** The cursor was made with other filters. */
    public static final int CURSOR_HAS_OTHER_FILTERS = 32;
    /** Cursors-max is reached. */
    public static final int TOO_MANY_CURSORS = 33;
    /** No publisher has this name. */
    public static final int NO_SUCH_PUBLISHER = 34;
    /** Known, but this server does not offer it. */
    public static final int NOT_OFFERED = 35;
    /** Reserved. */
    public static final int TOO_SLOW_TO_READ_NAMES = 36;
    /** No snapshot has this name and place. */
    public static final int NO_SUCH_SNAPSHOT = 37;
    /** Snapshots of 1000 names are kept. */
    public static final int TOO_MANY_SNAPSHOTS = 38;
    /** The bus, publisher or subscription is closed. */
    public static final int CLOSED = -1;
    /** The server could not be reached for too long; detail a: for how many ms. */
    public static final int UNREACHABLE = -2;
    /** The connection was cut while the server was asked; what the request would have changed may be changed or not. */
    public static final int CUT = -3;
    /** The other side broke the protocol. */
    public static final int PROTOCOL = -4;
    /** Threads, sockets or files. */
    public static final int IO = -5;
    /** The directory can't be opened as a bus. */
    public static final int OPEN = -6;
    /** Retention has passed the position; detail a: the first message wanted, detail b: the first that is kept. */
    public static final int TRIMMED = -7;
    /** An argument that can't be right. */
    public static final int ARGUMENT = -8;
    /** A mistake in the native library. */
    public static final int PANIC = -9;
    /** The journal was lost, or its end could not be written. */
    public static final int JOURNAL = -10;
    /** The native library can't be loaded. */
    public static final int LIBRARY = -11;

    private ErrorCode() {}
}
