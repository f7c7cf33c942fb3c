package io.arioso;

/**
 * A named publisher.
 *
 * @param name its name
 * @param id its number in the stream
 * @param epoch its newest epoch
 * @param last the last publisher sequence consumed
 * @param lastUsed when it was last used, unix nanoseconds
 */
public record PublisherInfo(String name, long id, long epoch, long last, long lastUsed) {}
