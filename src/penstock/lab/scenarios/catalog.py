"""The scenarios by name."""

from penstock.errors import BadInput
from penstock.lab.scenarios import spike as spikes
from penstock.lab.scenarios.arena import META, PODIUM
from penstock.lab.scenarios.dead_workers import dead_workers
from penstock.lab.scenarios.kill_broker import NODES, kill_broker
from penstock.lab.scenarios.kill_worker import kill_worker
from penstock.lab.scenarios.play import play_fast
from penstock.lab.scenarios.players import players
from penstock.lab.scenarios.scenario import Scenario
from penstock.lab.scenarios.workers import workers

_OVER_TABLES = (META, PODIUM)
_ALL = (
    Scenario("players", "live players over sockets, and one worker beside them", players, _OVER_TABLES, games=50),
    Scenario("workers", "two workers of a Spark cluster share the partitions", workers, _OVER_TABLES),
    Scenario("dead-workers", "no worker while the games are played; then they start, and the lag drains", dead_workers),
    Scenario("kill-worker", "workers killed with -9 in mid-work, and started again", kill_worker),
    Scenario(
        "kill-broker",
        "one node of three killed with -9 while events come in and land",
        kill_broker,
        _OVER_TABLES,
        games=300,
        nodes=NODES,
    ),
    Scenario(
        "spike",
        "nothing, then an hour's events at once: 90,000, in batches of at most 10,000",
        spikes.spike,
        _OVER_TABLES,
        players=spikes.PLAYERS,
        games=spikes.GAMES,
    ),
    Scenario(
        "poison",
        "2 % malformed records become dead letters, and nothing else does",
        lambda run: play_fast(run.arena, run.games),
        malformed=0.02,
    ),
)
SCENARIOS = {each.name: each for each in _ALL}


def find(name: str) -> Scenario:
    """Return a scenario by its name."""
    if name not in SCENARIOS:
        raise BadInput(f"there is no scenario '{name}'", fix=f"There are: {', '.join(SCENARIOS)}")
    return SCENARIOS[name]
