package io.arioso.voyage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.arioso.voyage.VoyageException.Reason;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

@Timeout(120)
class PathFinderTest {
    private static final Position ROTTERDAM = new Position(4.05, 51.98);
    private static final Position SINGAPORE = new Position(103.85, 1.20);
    private static final Position MOSCOW = new Position(37.6, 55.7);

    private static PathFinder finder;

    @BeforeAll
    static void open() {
        finder = PathFinder.oceans();
    }

    @AfterAll
    static void close() {
        finder.close();
    }

    @Test
    void aRouteTellsItsLengthItsPassagesAndItsPoints() {
        Route route = finder.route(ROTTERDAM, SINGAPORE);
        assertEquals(15_000, route.km(), 500);
        assertEquals(route.km() / 1.852, route.nauticalMiles(), 1e-9);
        assertTrue(route.passages().containsAll(List.of("dover", "gibraltar", "suez", "bab-el-mandeb")), route.passages().toString());
        assertEquals(ROTTERDAM.lat(), route.points().get(0).lat(), 1e-6);
        assertEquals(SINGAPORE.lat(), route.points().get(route.points().size() - 1).lat(), 1e-6);
        assertEquals(route.nauticalMiles() / 14, route.at(14).toSeconds() / 3600.0, 0.001);
        assertThrows(IllegalArgumentException.class, () -> route.at(0));
        assertThrows(UnsupportedOperationException.class, () -> route.points().clear());
    }

    @Test
    void passagesAreAvoidedAndAllowed() {
        Route around = finder.route(ROTTERDAM, SINGAPORE, Options.avoiding("suez"));
        assertTrue(around.km() > 20_000 && !around.passages().contains("suez"));
        Position hamburg = new Position(8.7, 54.0);
        Position rostock = new Position(12.1, 54.2);
        assertFalse(finder.route(hamburg, rostock).passages().contains("kiel"));
        assertTrue(finder.route(hamburg, rostock, Options.allowing("kiel")).passages().contains("kiel"));
        VoyageException unknown =
                assertThrows(VoyageException.class, () -> finder.route(hamburg, rostock, Options.avoiding("styx")));
        assertEquals(Reason.ARGUMENT, unknown.reason());
        assertTrue(finder.avoidable().containsAll(List.of("suez", "panama", "kiel")));
        assertFalse(finder.avoidable().contains("elbe"));
    }

    @Test
    void aVoyageIsFeasibleOrNotWithItsMargin() {
        Instant start = Instant.parse("2026-03-01T06:00:00Z");
        Route route = finder.route(ROTTERDAM, SINGAPORE);
        Duration needed = route.at(15);
        Verdict yes = finder.feasible(new Voyage(ROTTERDAM, start, SINGAPORE, start.plus(needed).plusSeconds(60), 15));
        assertTrue(yes.feasible() && !yes.byGreatCircle());
        assertEquals(60, yes.margin().toSeconds(), 1);
        assertEquals(route.km(), yes.km(), 1e-9);
        assertTrue(Duration.between(start.plus(needed), yes.earliestArrival()).abs().toMillis() < 10);
        Verdict late = finder.feasible(new Voyage(ROTTERDAM, start, SINGAPORE, start.plus(needed).minusSeconds(60), 15));
        assertTrue(!late.feasible() && late.margin().isNegative());
        Verdict never = finder.feasible(new Voyage(ROTTERDAM, start, SINGAPORE, start.plusSeconds(3600), 15));
        assertTrue(!never.feasible() && never.byGreatCircle());
        Voyage still = new Voyage(ROTTERDAM, start, SINGAPORE, start, 0);
        assertEquals(Reason.ARGUMENT, assertThrows(VoyageException.class, () -> finder.feasible(still)).reason());
    }

    @Test
    void landFarFromWaterIsRefusedAndNonsenseToo() {
        VoyageException inland = assertThrows(VoyageException.class, () -> finder.route(ROTTERDAM, MOSCOW));
        assertEquals(Reason.INLAND, inland.reason());
        assertTrue(inland.getMessage().contains("37.6"), inland.getMessage());
        assertThrows(IllegalArgumentException.class, () -> new Position(0, 91));
        assertThrows(IllegalArgumentException.class, () -> new Position(Double.NaN, 0));
        assertThrows(NullPointerException.class, () -> finder.route(null, MOSCOW));
    }

    @Test
    void manyThreadsGetTheAnswersOfOne() throws Exception {
        List<Position> ports = List.of(
                ROTTERDAM, SINGAPORE, new Position(-74.0, 40.5), new Position(139.8, 35.4), new Position(18.4, -33.9));
        List<Double> alone = all(ports);
        ExecutorService pool = Executors.newFixedThreadPool(8);
        try (PathFinder cold = PathFinder.oceans(0)) {
            Callable<List<Double>> work = () -> {
                List<Double> lengths = new ArrayList<>();
                for (Position from : ports) {
                    for (Position to : ports) {
                        lengths.add(cold.route(from, to).km());
                    }
                }
                return lengths;
            };
            List<Future<List<Double>>> asked = new ArrayList<>();
            for (int thread = 0; thread < 32; thread++) {
                asked.add(pool.submit(work));
            }
            for (Future<List<Double>> lengths : asked) {
                assertEquals(alone, lengths.get());
            }
        } finally {
            pool.shutdownNow();
        }
    }

    private static List<Double> all(List<Position> ports) {
        List<Double> lengths = new ArrayList<>();
        ports.forEach(from -> ports.forEach(to -> lengths.add(finder.route(from, to).km())));
        return lengths;
    }

    @Test
    void whatIsClosedWhileThreadsAskAnswersOrTellsThatItIsClosed() throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(4);
        PathFinder closing = PathFinder.oceans();
        double want = closing.route(ROTTERDAM, SINGAPORE).km();
        List<Future<Integer>> asked = new ArrayList<>();
        for (int thread = 0; thread < 4; thread++) {
            asked.add(pool.submit(() -> {
                for (int answers = 0; ; answers++) {
                    try {
                        assertEquals(want, closing.route(ROTTERDAM, SINGAPORE).km());
                    } catch (VoyageException closed) {
                        assertEquals(Reason.CLOSED, closed.reason());
                        return answers;
                    }
                }
            }));
        }
        closing.close();
        closing.close();
        for (Future<Integer> answers : asked) {
            assertTrue(answers.get() >= 0);
        }
        pool.shutdownNow();
    }

    @Test
    void aNetworkOfLinesIsReadAndAMissingOneIsTold(@TempDir Path dir) throws Exception {
        Path lines = dir.resolve("lines.geojson");
        String line = "{\"type\":\"Feature\",\"geometry\":{\"type\":\"LineString\",\"coordinates\":[[0,0],[1,0],[1,1]]}}";
        Files.writeString(lines, "{\"type\":\"FeatureCollection\",\"features\":[" + line + "]}");
        try (PathFinder own = PathFinder.open(lines, 0)) {
            assertEquals(222.4, own.route(new Position(0, 0), new Position(1, 1)).km(), 0.1);
        }
        VoyageException missing =
                assertThrows(VoyageException.class, () -> PathFinder.open(dir.resolve("none.sea"), 0));
        assertEquals(Reason.NETWORK, missing.reason());
    }
}
