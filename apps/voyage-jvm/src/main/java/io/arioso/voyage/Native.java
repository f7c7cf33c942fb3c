package io.arioso.voyage;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Locale;

/**
 * The native functions. {@link #load} loads the library (the file that the system property {@value #PROPERTY} names, else a
 * copy of the one inside the jar) and registers all of them, so that a library of another version is told at load.
 */
final class Native {
    /** Names a file to load in place of the one inside the jar. */
    static final String PROPERTY = "io.arioso.voyage.library";

    private static final String FILE = "libarioso_voyage_jvm.so";

    private Native() {}

    /** Holds the outcome: a class is initialised once, and whoever comes meanwhile waits. */
    private static final class Loaded {
        static final VoyageException FAILED = tryToLoad();

        private static VoyageException tryToLoad() {
            try {
                String file = System.getProperty(PROPERTY);
                if (file != null && !file.isEmpty()) {
                    System.load(Path.of(file).toAbsolutePath().toString());
                } else {
                    loadCopy();
                }
                register();
                return null;
            } catch (IOException | LinkageError problem) {
                String text = "the native library can't be loaded: " + problem;
                return new VoyageException(VoyageException.Reason.LIBRARY, text, problem);
            }
        }
    }

    static void load() {
        if (Loaded.FAILED != null) {
            // A new one each time, with the caller's own stack.
            throw new VoyageException(VoyageException.Reason.LIBRARY, Loaded.FAILED.getMessage(), Loaded.FAILED);
        }
    }

    /** In a directory that nobody else can enter, and only until it is mapped. */
    private static void loadCopy() throws IOException {
        String arch = System.getProperty("os.arch").toLowerCase(Locale.ROOT);
        String platform = System.getProperty("os.name").toLowerCase(Locale.ROOT) + "-" + (arch.equals("amd64") ? "x86_64" : arch);
        String resource = "/META-INF/native/" + platform + "/" + FILE;
        try (InputStream library = Native.class.getResourceAsStream(resource)) {
            if (library == null) {
                throw new IOException("resource " + resource + " is not in the jar");
            }
            boolean posix = FileSystems.getDefault().supportedFileAttributeViews().contains("posix");
            FileAttribute<?>[] ownerOnly = posix
                    ? new FileAttribute<?>[] {PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))}
                    : new FileAttribute<?>[0];
            Path directory = Files.createTempDirectory("arioso-voyage-", ownerOnly);
            Path copy = directory.resolve(FILE);
            try {
                Files.copy(library, copy);
                System.load(copy.toString());
            } finally {
                Files.deleteIfExists(copy);
                Files.deleteIfExists(directory);
            }
        }
    }

    static native void register();

    static native long open(String network, long cacheBytes);

    static native void close(long finder);

    static native String[] passages(long finder);

    static native double[] route(
            long finder,
            double fromLon,
            double fromLat,
            double toLon,
            double toLat,
            long closedLow,
            long closedHigh,
            double snapKmMax);

    static native double[] feasible(
            long finder,
            double lon,
            double lat,
            double time,
            double toLon,
            double toLat,
            double arrival,
            double maxKnots,
            long closedLow,
            long closedHigh,
            double snapKmMax);
}
