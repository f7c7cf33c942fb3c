package io.arioso;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import org.junit.jupiter.api.Test;

/** The bus in this process. */
class EmbeddedTest extends BusSuite {
    @Override
    Bus open() {
        return Bus.open(dir.resolve("bus"), SMALL);
    }

    @Test
    void aDirectoryIsOpenOnceAtATime() {
        try (Bus bus = open()) {
            BusException second = assertThrows(BusException.class, this::open);
            assertEquals(ErrorCode.OPEN, second.code());
            bus.publish("a/b", Message.of("still open"));
        }
    }

    @Test
    void aSettingThatDoesNotExistIsRefusedByName() {
        BusException wrong =
                assertThrows(BusException.class, () -> Bus.open(dir.resolve("bus"), Map.of("tip-bites", "1")));
        assertEquals(ErrorCode.ARGUMENT, wrong.code());
        assertEquals(true, wrong.getMessage().contains("tip-bites"), wrong.getMessage());
    }
}
