package io.arioso.voyage;

/** What went wrong: there is no way, a position is far from water, a network can't be read. */
public final class VoyageException extends RuntimeException {
    private static final long serialVersionUID = 1;

    /** Why. */
    public enum Reason {
        /** No way leads there through passages that are open. */
        NO_ROUTE,
        /** A position is too far from water, or in water without a way out. */
        INLAND,
        /** An argument can't be right; the text says which. */
        ARGUMENT,
        /** A network can't be read. */
        NETWORK,
        /** The path finder is closed. */
        CLOSED,
        /** The native library can't be loaded. */
        LIBRARY,
        /** A mistake in the library. */
        MISTAKE
    }

    private final Reason reason;

    VoyageException(Reason reason, String text, Throwable cause) {
        super(text, cause);
        this.reason = reason;
    }

    /** Called by the native library. */
    VoyageException(String reason, String text) {
        this(Reason.valueOf(reason), text, null);
    }

    /**
     * Why.
     *
     * @return the reason
     */
    public Reason reason() {
        return reason;
    }
}
