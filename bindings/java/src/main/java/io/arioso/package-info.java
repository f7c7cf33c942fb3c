/**
 * Arioso inside a JVM process: an ordered, durable message bus in which reading a slice of the stream costs what the slice
 * weighs.
 *
 * <p>{@link io.arioso.Bus#open Bus.open} runs the bus in this process, on a directory; {@link io.arioso.Bus#connect Bus.connect}
 * talks to a server. Both give the same {@code Bus}.
 *
 * <pre>{@code
 * try (Bus bus = Bus.open(Path.of("/tmp/arioso"))) {
 *     bus.publish("orders/eu/4711", "paid".getBytes(UTF_8));
 *     try (Subscription orders = bus.subscribe(Subscribe.to("orders/**").fromStart().untilEnd())) {
 *         for (Batch batch : orders) {
 *             for (Received message : batch) {
 *                 System.out.println(message.sequence() + " " + message.topic() + " " + message.payloadText());
 *             }
 *         }
 *     }
 * }
 * }</pre>
 *
 * <p>Every error is a {@link io.arioso.BusException} with a number from {@link io.arioso.ErrorCode}.
 */
package io.arioso;
