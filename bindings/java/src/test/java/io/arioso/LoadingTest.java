package io.arioso;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Modifier;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** How the native library is found, by whom, and what is told when it is not. */
@Timeout(60)
class LoadingTest {
    private static final Path JAR = Path.of(System.getProperty("arioso.jar"));
    private static final Path LIBRARY =
            Path.of(System.getProperty("arioso.target"), "classes/META-INF/native/linux-x86_64/libarioso_jvm.so");

    @TempDir
    Path dir;

    /** Opens a bus by its own classes, for a child JVM and for other class loaders. */
    public static final class Probe {
        private Probe() {}

        public static void main(String[] arguments) {
            try (Bus bus = Bus.open(Path.of(arguments[0]))) {
                System.out.println("stored at " + bus.publish("a/b", "x".getBytes(UTF_8)).sequence());
            }
        }
    }

    private Child probe(String... options) {
        Path classes = Path.of(System.getProperty("arioso.target"), "test-classes");
        String path = JAR + java.io.File.pathSeparator + classes;
        String data = dir.resolve("bus").toString();
        return Child.run(dir, Child.java(List.of(options), path, Probe.class.getName(), data));
    }

    private static boolean leavesNothing(Path directory) throws IOException {
        try (var entries = Files.list(directory)) {
            return entries.noneMatch(entry -> entry.getFileName().toString().startsWith("arioso-"));
        }
    }

    @Test
    void itLiesInTheJarAndLeavesNoFileBehind() throws IOException {
        Path copies = Files.createDirectory(dir.resolve("copies"));
        Child child = probe("-Dio.arioso.tmpdir=" + copies);
        assertEquals(0, child.exit(), child.output());
        assertTrue(child.output().contains("stored at 1"), child.output());
        assertTrue(leavesNothing(copies));
    }

    @Test
    void aSystemPropertyNamesAnotherFile() throws IOException {
        Path other = Files.copy(LIBRARY, dir.resolve("other.so"));
        Child child = probe("-Dio.arioso.library=" + other, "-Djava.io.tmpdir=/nowhere");
        assertEquals(0, child.exit(), child.output());
        assertTrue(child.output().contains("stored at 1"), child.output());
    }

    @Test
    void aFailureTellsSystemArchitectureAndWhatWasTried() throws IOException {
        Child foreign = probe("-Dos.name=Plan 9", "-Dos.arch=sparc");
        assertEquals(1, foreign.exit());
        assertTrue(foreign.output().contains("Plan 9, sparc"), foreign.output());
        assertTrue(foreign.output().contains("/META-INF/native/plan 9-sparc/"), foreign.output());

        Child missing = probe("-Dio.arioso.library=/nowhere/a.so");
        assertTrue(missing.output().contains("/nowhere/a.so, named by the system property io.arioso.library"));

        Path text = Files.writeString(dir.resolve("text.so"), "not a library");
        Child wrong = probe("-Dio.arioso.library=" + text);
        assertTrue(wrong.output().contains(text + ", named by the system property"), wrong.output());
        assertTrue(wrong.output().contains("amd64"), wrong.output());

        Child noRoom = probe("-Dio.arioso.tmpdir=/nowhere");
        assertTrue(noRoom.output().contains("copied to /nowhere"), noRoom.output());
    }

    @Test
    void aLibraryThatIsAnotherIsToldAtLoad() {
        // A library of this machine that has nothing to do with it.
        Path java = Path.of(System.getProperty("java.home"), "lib/libzip.so");
        Child child = probe("-Dio.arioso.library=" + java);
        assertEquals(1, child.exit());
        assertTrue(child.output().contains("not the one for these classes"), child.output());
    }

    @Test
    void everyNativeFunctionIsRegisteredAndComparedAtLoad() {
        Native.load();
        List<String> registered = List.of(Native.register());
        long declared = Arrays.stream(Native.class.getDeclaredMethods())
                .filter(method -> Modifier.isNative(method.getModifiers()) && !method.getName().equals("register"))
                .count();
        assertEquals(declared, registered.size());
        for (String left : registered) {
            String[] others = registered.stream().filter(name -> !name.equals(left)).toArray(String[]::new);
            BusException lacking = assertThrows(BusException.class, () -> Native.check(others));
            assertEquals(ErrorCode.LIBRARY, lacking.code());
            assertTrue(lacking.getMessage().contains("lacks [" + left + "]"), lacking.getMessage());
        }
    }

    @Test
    void panicsAndFailuresOfTheLibraryBecomeExceptions() {
        Native.load();
        assertEquals(5, Native.echo(5, 0));
        assertEquals(ErrorCode.ARGUMENT, assertThrows(BusException.class, () -> Native.echo(5, 1)).code());
        BusException panic = assertThrows(BusException.class, () -> Native.echo(5, 2));
        assertEquals(ErrorCode.PANIC, panic.code());
        assertTrue(panic.getMessage().contains("echo of 5"), panic.getMessage());
    }

    /** Looks at its own classes first, as application servers do. */
    private static final class ChildFirst extends URLClassLoader {
        ChildFirst(ClassLoader parent) throws IOException {
            super(new URL[] {JAR.toUri().toURL()}, parent);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                Class<?> known = findLoadedClass(name);
                if (known != null) {
                    return known;
                }
                try {
                    return findClass(name);
                } catch (ClassNotFoundException exception) {
                    return super.loadClass(name, resolve);
                }
            }
        }
    }

    private AutoCloseable open(ClassLoader loader, String name) throws ReflectiveOperationException {
        Class<?> bus = loader.loadClass("io.arioso.Bus");
        assertSame(loader, bus.getClassLoader());
        return (AutoCloseable) bus.getMethod("open", Path.class).invoke(null, dir.resolve(name));
    }

    private static long publish(Object bus) throws ReflectiveOperationException {
        Object ack = bus.getClass().getMethod("publish", String.class, byte[].class).invoke(bus, "a/b", new byte[] {1});
        return (long) ack.getClass().getMethod("sequence").invoke(ack);
    }

    @Test
    void twoClassLoadersAndAChildFirstOneUseTheBusAtOnceBesideThisOne() throws Exception {
        URL[] jar = {JAR.toUri().toURL()};
        try (Bus here = Bus.open(dir.resolve("here"));
                URLClassLoader first = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader());
                URLClassLoader second = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader());
                ChildFirst third = new ChildFirst(LoadingTest.class.getClassLoader());
                AutoCloseable one = open(first, "one");
                AutoCloseable two = open(second, "two");
                AutoCloseable three = open(third, "three")) {
            assertNotSame(one.getClass(), two.getClass());
            assertNotSame(Bus.class, three.getClass());
            for (Object bus : List.of(one, two, three, one, two, three)) {
                assertTrue(publish(bus) > 0);
            }
            assertTrue(here.publish("a/b", new byte[0]).sequence() > 0);
        }
    }

    @Test
    void theSameFileNamedByThePropertyIsLoadedByTwoClassLoaders() throws Exception {
        String property = "io.arioso.library";
        System.setProperty(property, LIBRARY.toString());
        URL[] jar = {JAR.toUri().toURL()};
        try (URLClassLoader first = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader());
                URLClassLoader second = new URLClassLoader(jar, ClassLoader.getPlatformClassLoader());
                AutoCloseable one = open(first, "one");
                AutoCloseable two = open(second, "two")) {
            assertEquals(publish(one), publish(two));
        } finally {
            System.clearProperty(property);
        }
    }
}
