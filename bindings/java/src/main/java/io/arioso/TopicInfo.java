package io.arioso;

/**
 * A topic and what it holds.
 *
 * @param topic the topic
 * @param messages messages kept
 * @param bytes bytes of their records
 * @param last sequence of the newest
 */
public record TopicInfo(String topic, long messages, long bytes, long last) {}
