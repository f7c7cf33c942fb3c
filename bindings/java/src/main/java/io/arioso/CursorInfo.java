package io.arioso;

import java.util.List;

/**
 * A cursor.
 *
 * @param name its name
 * @param next the next message it wants
 * @param committedAt when it was opened, set or committed last, unix nanoseconds
 * @param filters its filters
 */
public record CursorInfo(String name, long next, long committedAt, List<String> filters) {}
