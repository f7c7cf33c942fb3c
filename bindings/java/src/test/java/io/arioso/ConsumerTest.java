package io.arioso;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** A throw-away Maven project that only names the dependency, built and run on its class path and as a fat jar. */
@Timeout(300)
class ConsumerTest {
    private static final Path PROJECT = Path.of(System.getProperty("arioso.project"));
    private static final Path JAR = Path.of(System.getProperty("arioso.jar"));

    @TempDir
    Path dir;

    /**
     * A local repository that holds this artefact and, behind links, everything else that the user's holds, which is left as it is.
     */
    private Path repository() throws IOException {
        Path users = Path.of(System.getProperty("arioso.repository"));
        Path here = Files.createDirectories(dir.resolve("repository"));
        link(users, here, "io");
        link(users.resolve("io"), Files.createDirectories(here.resolve("io")), "arioso");
        Path ours = Files.createDirectories(here.resolve("io/arioso/arioso/0.1.0"));
        Files.copy(JAR, ours.resolve("arioso-0.1.0.jar"));
        Files.copy(PROJECT.resolve("pom.xml"), ours.resolve("arioso-0.1.0.pom"));
        return here;
    }

    private static void link(Path from, Path to, String without) throws IOException {
        try (var entries = Files.list(from)) {
            for (Path entry : entries.filter(Files::isDirectory).toList()) {
                if (!entry.getFileName().toString().equals(without)) {
                    Files.createSymbolicLink(to.resolve(entry.getFileName()), entry);
                }
            }
        }
    }

    private Path project() throws IOException {
        Path from = PROJECT.resolve("src/test/consumer");
        Path to = dir.resolve("project");
        try (var files = Files.walk(from)) {
            for (Path file : files.toList()) {
                Files.copy(file, to.resolve(from.relativize(file).toString()));
            }
        }
        return to;
    }

    @AfterEach
    void unlink() throws IOException {
        try (var files = Files.walk(dir.resolve("repository"))) {
            for (Path link : files.filter(Files::isSymbolicLink).toList()) {
                Files.delete(link);
            }
        }
    }

    @Test
    void aProjectThatOnlyNamesTheDependencyRunsOnItsClassPathAndAsAFatJar() throws IOException {
        Path project = project();
        String repository = "-Dmaven.repo.local=" + repository();
        Child built = Child.run(dir, List.of("mvn", "-q", "--batch-mode", repository, "-f", project + "/pom.xml", "package"));
        assertEquals(0, built.exit(), built.output());

        String jars = project.resolve("target/consumer.jar") + File.pathSeparator + JAR;
        String data = dir.resolve("bus").toString();
        Child onPath = Child.run(dir, Child.java(List.of(), jars, "consumer.Main", data));
        assertEquals(0, onPath.exit(), onPath.output());
        assertTrue(onPath.output().endsWith("orders/1 paid\n"), onPath.output());

        String fat = project.resolve("target/consumer-jar-with-dependencies.jar").toString();
        Child fatJar = Child.run(dir, List.of(Child.JAVA, "-jar", fat, data));
        assertEquals(0, fatJar.exit(), fatJar.output());
        assertTrue(fatJar.output().endsWith("orders/1 paid\norders/1 paid\n"), fatJar.output());
    }
}
