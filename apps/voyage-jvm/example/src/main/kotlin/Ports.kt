// Which of these ports can a ship reach in time? Asked by all processors at once, one path finder for all of them.

import io.arioso.voyage.PathFinder
import io.arioso.voyage.Position
import io.arioso.voyage.Voyage
import io.arioso.voyage.VoyageException
import java.time.Duration
import java.time.Instant

private val PORTS = mapOf(
    "Rotterdam" to Position(4.05, 51.98),
    "New York" to Position(-74.02, 40.70),
    "Santos" to Position(-46.30, -23.97),
    "Singapore" to Position(103.85, 1.20),
    "Yokohama" to Position(139.65, 35.45),
    "Moscow" to Position(37.60, 55.70),
)

fun main() {
    val ship = Position(18.42, -33.91) // Cape Town
    val time = Instant.parse("2026-03-01T06:00:00Z")
    val arrival = time.plus(Duration.ofDays(16))
    PathFinder.oceans().use { finder ->
        val told = PORTS.entries.parallelStream().map { (name, port) ->
            try {
                val verdict = finder.feasible(Voyage(ship, time, port, arrival, 14.0))
                "$name ${if (verdict.feasible) "yes" else "no"} ${Math.round(verdict.km)} km, ${verdict.margin.toHours()} h to spare"
            } catch (refused: VoyageException) {
                "$name ${refused.reason()}"
            }
        }
        told.toList().sorted().forEach(::println)
    }
}
