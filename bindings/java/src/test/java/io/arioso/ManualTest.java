package io.arioso;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** What docs/jvm.md shows compiles and does what it says. */
@Timeout(300)
class ManualTest {
    private static final String DIRECTORY = "/tmp/arioso-embedded";
    private static final Path MANUAL = Path.of(System.getProperty("arioso.project"), "../../docs/jvm.md");

    @TempDir
    Path dir;

    /** The first block of a language, on this test's directory. */
    private String shown(String language) throws IOException {
        Pattern block = Pattern.compile("```" + language + "\n(.*?)```", Pattern.DOTALL);
        Matcher found = block.matcher(Files.readString(MANUAL));
        assertTrue(found.find(), "docs/jvm.md shows no " + language);
        return found.group(1).replace(DIRECTORY, dir.resolve("bus").toString());
    }

    private Child run(List<String> options, String path, String main, String... arguments) {
        return Child.run(dir, Child.java(options, path, main, arguments));
    }

    @Test
    void itsJavaPublishesAndReplays() throws IOException {
        String source = """
                import static java.nio.charset.StandardCharsets.UTF_8;
                import io.arioso.*;
                import java.nio.file.Path;
                public class Shown {
                    public static void main(String[] arguments) {
                        %s
                    }
                }
                """;
        Path file = Files.writeString(dir.resolve("Shown.java"), String.format(source, shown("java")));
        Child child = Child.run(dir, List.of(Child.JAVA, "-cp", System.getProperty("arioso.jar"), file.toString()));
        assertEquals(0, child.exit(), child.output());
        assertTrue(child.output().contains(" orders/eu/4711 paid\n"), child.output());
        assertTrue(child.output().contains(" orders/us/17 new\n"), child.output());
    }

    @Test
    void itsKotlinIsCompiledAndReplays() throws IOException {
        String source = "import io.arioso.*\nimport java.nio.file.Path\n\nfun main() {\n" + shown("kotlin") + "}\n";
        Path file = Files.writeString(dir.resolve("Shown.kt"), source);
        String out = dir.resolve("kotlin").toString();
        String jar = System.getProperty("arioso.jar");
        String[] arguments = {"-no-stdlib", "-no-reflect", "-Werror", "-cp", Child.TEST_PATH, "-d", out, file.toString()};
        String compiler = "org.jetbrains.kotlin.cli.jvm.K2JVMCompiler";
        Child compiled = run(List.of("-Xmx512m"), Child.TEST_PATH, compiler, arguments);
        assertEquals(0, compiled.exit(), compiled.output());
        String path = String.join(File.pathSeparator, out, jar, Child.TEST_PATH);
        Child child = run(List.of(), path, "ShownKt");
        assertEquals(0, child.exit(), child.output());
        assertTrue(child.output().contains(" orders/eu/4711 paid\n"), child.output());
    }
}
