package io.arioso;

import java.lang.invoke.MethodType;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;

/**
 * The native functions. {@link #load} registers all of them and compares both sides, so that a library of another version is told
 * at load and not at the first use of what it lacks.
 */
final class Native {
    private static volatile boolean loaded;
    private static BusException failed;

    private Native() {}

    /** Loads the library once for this class loader. After a failure every call tells the same. */
    static void load() {
        if (!loaded) {
            loadOnce();
        }
    }

    private static synchronized void loadOnce() {
        if (loaded) {
            return;
        }
        if (failed == null) {
            try {
                NativeLibrary.load();
                check(register());
                loaded = true;
                return;
            } catch (BusException exception) {
                failed = exception;
            } catch (LinkageError error) {
                String what = "the native library is not the one for these classes: " + error.getMessage();
                failed = new BusException(ErrorCode.LIBRARY, what, error);
            }
        }
        // A new one each time, with the caller's own stack; the first is its cause.
        throw new BusException(ErrorCode.LIBRARY, failed.getMessage(), failed);
    }

    /** Compares what the library registered with what is declared here. */
    static void check(String[] registered) {
        Set<String> missing = new HashSet<>();
        for (Method method : Native.class.getDeclaredMethods()) {
            if (Modifier.isNative(method.getModifiers()) && !method.getName().equals("register")) {
                MethodType type = MethodType.methodType(method.getReturnType(), method.getParameterTypes());
                missing.add(method.getName() + type.toMethodDescriptorString());
            }
        }
        missing.removeAll(Arrays.asList(registered));
        if (!missing.isEmpty()) {
            throw new BusException(ErrorCode.LIBRARY, "the native library lacks " + missing, null);
        }
    }

    static native String[] register();

    /** Gives the value back; with how = 1 it fails, with 2 it panics. For measuring and for tests. */
    static native long echo(long value, int how);

    /** Objects that are open. For tests. */
    static native long objects();

    static native long open(String dir, byte[] settings);

    static native long connect(String address, String name, long timeoutMs, long unreachableMs);

    static native void close(long number);

    static native void closeLater(long number);

    static native long publisher(long bus, String name, long first);

    static native int topic(long publisher, String topic);

    static native void send(
            long publisher,
            byte[] topic,
            byte[] payload,
            int offset,
            int count,
            byte[] extras,
            int level,
            long token,
            long[] answer);

    static native void sendBlock(
            long publisher, ByteBuffer block, int count, boolean atomic, int level, long token, long[] answer);

    static native void flush(long publisher);

    static native long answers(long bus);

    static native int nextAnswers(long answers, ByteBuffer buffer);

    static native long subscribe(long bus, byte[] wanted);

    static native long startsAt(long subscription);

    static native int next(long subscription, ByteBuffer buffer, long[] facts);

    static native String topicName(long subscription, int id);

    static native boolean goOn(long subscription, long begin);

    static native void commit(long subscription, long next);

    static native byte[] topics(long bus, String filter, String after);

    static native byte[] publishers(long bus, String after);

    static native byte[] cursors(long bus, String after);

    static native byte[] explain(long bus, byte[] wanted);

    static native byte[] status(long bus);

    static native void dropPublisher(long bus, String name);

    static native void setCursor(long bus, String name, long next, byte[] filters);

    static native void dropCursor(long bus, String name);
}
