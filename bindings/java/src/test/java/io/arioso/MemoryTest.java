package io.arioso;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Resident memory of a process through which many messages go, both ways. */
class MemoryTest {
    /**
     * What resident memory may grow by between the third of ten measures and the last: less than a leak of 48 bytes, the least that
     * the allocator gives, would be with the fewest messages.
     */
    private static final long GROWTH_KIB_MAX = 24 << 10;

    @TempDir
    Path dir;

    @Test
    void residentMemoryStaysFlatWhileMessagesAreBytesOfJavaBothWays() {
        long messages = Math.max(Long.getLong("arioso.messages", 0), 1_000_000);
        // A heap that is there from the start: what grows is outside of it.
        List<String> options = List.of("-Xms128m", "-Xmx128m", "-XX:+AlwaysPreTouch", "-XX:MaxDirectMemorySize=32m");
        String[] arguments = {dir.resolve("bus").toString(), Long.toString(messages)};
        Child child = Child.run(dir, Child.java(options, Child.TEST_PATH, "io.arioso.FollowAll", arguments));
        assertEquals(0, child.exit(), child.output());
        System.out.print(child.output());
        List<Long> resident = child.output()
                .lines()
                .filter(line -> line.startsWith("messages "))
                .map(line -> Long.parseLong(line.split(" ")[3]))
                .toList();
        assertEquals(10, resident.size(), child.output());
        long growth = resident.get(9) - resident.get(2);
        assertTrue(growth <= GROWTH_KIB_MAX, "grown by " + growth + " KiB: " + resident);
        assertTrue(child.output().contains("seen " + messages + " bytes " + 32 * messages), child.output());
    }
}
