package io.arioso;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** What a process of its own printed, and how it ended. */
record Child(int exit, String output) {
    /** The java that runs these tests. */
    static final String JAVA = Path.of(System.getProperty("java.home"), "bin", "java").toString();

    static final String TEST_PATH = System.getProperty("java.class.path");

    /** Starts it; output and errors go to a file in the directory. */
    static Process start(Path directory, List<String> command) {
        try {
            ProcessBuilder builder = new ProcessBuilder(command);
            builder.directory(directory.toFile());
            builder.redirectErrorStream(true);
            builder.redirectOutput(directory.resolve("output").toFile());
            return builder.start();
        } catch (IOException exception) {
            throw new UncheckedIOException(exception);
        }
    }

    static Child end(Path directory, Process process) {
        try {
            if (!process.waitFor(10, TimeUnit.MINUTES)) {
                process.destroyForcibly();
                throw new IllegalStateException("the process does not end");
            }
            return new Child(process.exitValue(), Files.readString(directory.resolve("output")));
        } catch (IOException exception) {
            throw new UncheckedIOException(exception);
        } catch (InterruptedException exception) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException(exception);
        }
    }

    static Child run(Path directory, List<String> command) {
        return end(directory, start(directory, command));
    }

    /** A JVM with options, class path, main class and its arguments. */
    static List<String> java(List<String> options, String classPath, String main, String... arguments) {
        List<String> command = new ArrayList<>(List.of(JAVA));
        command.addAll(options);
        command.addAll(List.of("-cp", classPath, main));
        command.addAll(List.of(arguments));
        return command;
    }
}
