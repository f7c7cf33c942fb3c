package io.arioso;

/** Closing a bus in this process. */
class ClosingEmbeddedTest extends ClosingSuite {
    @Override
    Bus open() {
        return Bus.open(dir.resolve("bus"), BusSuite.SMALL);
    }
}
