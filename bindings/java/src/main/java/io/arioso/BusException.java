package io.arioso;

/** What went wrong, with the wire's error number. The only exception that this library throws for misfortunes. */
public final class BusException extends RuntimeException {
    private static final long serialVersionUID = 1L;

    private final int code;
    private final long detailA;
    private final long detailB;

    // The native library makes them by this constructor.
    BusException(int code, long detailA, long detailB, String message) {
        super(message);
        this.code = code;
        this.detailA = detailA;
        this.detailB = detailB;
    }

    BusException(int code, String message, Throwable cause) {
        super(message, cause);
        this.code = code;
        this.detailA = 0;
        this.detailB = 0;
    }

    static BusException closed(String what) {
        return new BusException(ErrorCode.CLOSED, 0, 0, "the " + what + " is closed");
    }

    static BusException argument(String message) {
        return new BusException(ErrorCode.ARGUMENT, 0, 0, message);
    }

    /** Its number, one of {@link ErrorCode}. A newer server may send one that is not listed there. */
    public int code() {
        return code;
    }

    /**
     * A number whose meaning depends on the code: for {@link ErrorCode#CONDITION_FAILED} the newest matching message, for
     * {@link ErrorCode#TRIMMED} the first message wanted.
     */
    public long detailA() {
        return detailA;
    }

    /** A number whose meaning depends on the code: for {@link ErrorCode#TRIMMED} the first message that is kept. */
    public long detailB() {
        return detailB;
    }

    /** Whether the bus, publisher or subscription was closed. */
    public boolean isClosed() {
        return code == ErrorCode.CLOSED;
    }
}
