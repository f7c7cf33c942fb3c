package io.arioso;

import java.util.UUID;

/**
 * How the stream stands.
 *
 * @param streamName its name
 * @param streamId its id, made at creation
 * @param nextSequence the next number that will be given
 * @param settled everything at or below is settled or void
 * @param firstKept the first message kept
 * @param topics topics
 * @param tipBytes bytes in the tip
 * @param tipFirst the first message in the tip
 */
public record Status(
        String streamName,
        UUID streamId,
        long nextSequence,
        long settled,
        long firstKept,
        long topics,
        long tipBytes,
        long tipFirst) {}
