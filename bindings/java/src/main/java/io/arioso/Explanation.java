package io.arioso;

/**
 * What a subscription would read.
 *
 * @param segments segments touched
 * @param stores stores touched
 * @param bytesToRead bytes to read
 * @param bytesUseful bytes of messages that match
 * @param messages messages that match on disk
 * @param tipMessages messages that match in the tip
 */
public record Explanation(
        long segments, long stores, long bytesToRead, long bytesUseful, long messages, long tipMessages) {}
