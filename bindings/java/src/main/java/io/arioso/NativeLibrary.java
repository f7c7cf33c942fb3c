package io.arioso;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * Finds the native library and loads it: the file that the system property {@value #PROPERTY} names, else the one inside the
 * jar, by operating system and architecture.
 *
 * <p>The JVM lets a file be loaded by one class loader only, and a file that others can write must not be loaded. So every
 * class loader copies the library into a directory of its own that nobody else can enter, and removes it once it is mapped.
 */
final class NativeLibrary {
    /** Names a file to load in place of the one inside the jar. */
    static final String PROPERTY = "io.arioso.library";
    /** Names the directory that the library is copied to, in place of the system's for temporary files. */
    static final String DIRECTORY_PROPERTY = "io.arioso.tmpdir";

    private static final String FILE = "libarioso_jvm.so";

    private NativeLibrary() {}

    /** Operating system and architecture as the jar's directories are named. */
    static String platform(String osName, String osArch) {
        String os = osName.toLowerCase(Locale.ROOT);
        String arch = osArch.toLowerCase(Locale.ROOT);
        if (os.startsWith("mac")) {
            os = "macos";
        } else if (os.startsWith("windows")) {
            os = "windows";
        }
        return switch (arch) {
            case "amd64", "x86-64", "x64" -> os + "-x86_64";
            case "arm64" -> os + "-aarch64";
            default -> os + "-" + arch;
        };
    }

    static void load() {
        List<String> tried = new ArrayList<>();
        String file = System.getProperty(PROPERTY);
        boolean done = file != null && !file.isEmpty() ? given(Path.of(file), tried) : inJar(tried);
        if (!done) {
            String platform = System.getProperty("os.name") + ", " + System.getProperty("os.arch");
            String text = "no native library for this platform (" + platform + "); tried: " + String.join("; ", tried);
            throw new BusException(ErrorCode.LIBRARY, text, null);
        }
    }

    private static boolean given(Path file, List<String> tried) {
        String what = file + ", named by the system property " + PROPERTY;
        if (!Files.isRegularFile(file)) {
            tried.add(what + ": there is no such file");
            return false;
        }
        try {
            System.load(file.toAbsolutePath().toString());
            return true;
        } catch (UnsatisfiedLinkError error) {
            tried.add(what + ": " + error.getMessage());
        }
        // Another class loader may have loaded it: then a copy is loaded.
        try (InputStream library = Files.newInputStream(file)) {
            return copied(library, what, tried);
        } catch (IOException exception) {
            tried.add(what + ": " + exception);
            return false;
        }
    }

    private static boolean inJar(List<String> tried) {
        String platform = platform(System.getProperty("os.name"), System.getProperty("os.arch"));
        String resource = "/META-INF/native/" + platform + "/" + FILE;
        // By this class, not by the thread's context: whoever loaded the class has the jar.
        try (InputStream library = NativeLibrary.class.getResourceAsStream(resource)) {
            if (library == null) {
                tried.add("resource " + resource + ": it is not in the jar");
                return false;
            }
            return copied(library, "resource " + resource, tried);
        } catch (IOException exception) {
            tried.add("resource " + resource + ": " + exception);
            return false;
        }
    }

    private static boolean copied(InputStream library, String what, List<String> tried) throws IOException {
        String named = System.getProperty(DIRECTORY_PROPERTY);
        Path parent = Path.of(named != null && !named.isEmpty() ? named : System.getProperty("java.io.tmpdir"));
        Path directory = null;
        Path copy = null;
        try {
            directory = Files.createTempDirectory(parent, "arioso-", ownerOnly());
            copy = directory.resolve(FILE);
            Files.copy(library, copy);
            System.load(copy.toAbsolutePath().toString());
            return true;
        } catch (UnsatisfiedLinkError error) {
            String hint = " (mounted noexec? the system property " + DIRECTORY_PROPERTY + " names another directory)";
            tried.add(what + ", copied to " + copy + ": " + error.getMessage() + hint);
            return false;
        } catch (IOException exception) {
            tried.add(what + ", copied to " + parent + ": " + exception);
            return false;
        } finally {
            // Mapped, it needs its name no more.
            if (copy != null) {
                Files.deleteIfExists(copy);
            }
            if (directory != null) {
                Files.deleteIfExists(directory);
            }
        }
    }

    private static FileAttribute<?>[] ownerOnly() {
        if (FileSystems.getDefault().supportedFileAttributeViews().contains("posix")) {
            return new FileAttribute<?>[] {
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------"))
            };
        }
        return new FileAttribute<?>[0];
    }
}
