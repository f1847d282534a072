"""The scenarios of games by name; `midnight` has none, and a folder of its own."""

from penstock.errors import BadInput
from penstock.lab.scenarios import spike as spikes
from penstock.lab.scenarios.arena import META, PODIUM
from penstock.lab.scenarios.dead_workers import dead_workers
from penstock.lab.scenarios.kill_broker import NODES, kill_broker
from penstock.lab.scenarios.kill_worker import kill_worker
from penstock.lab.scenarios.names import ABOUT
from penstock.lab.scenarios.play import play_fast
from penstock.lab.scenarios.players import players
from penstock.lab.scenarios.scenario import Scenario
from penstock.lab.scenarios.workers import workers
from penstock.wording import nearest

_OVER_TABLES = (META, PODIUM)
_ALL = (
    Scenario("players", ABOUT["players"], players, _OVER_TABLES, games=50),
    Scenario("workers", ABOUT["workers"], workers, _OVER_TABLES),
    Scenario("dead-workers", ABOUT["dead-workers"], dead_workers),
    Scenario("kill-worker", ABOUT["kill-worker"], kill_worker),
    Scenario(
        "kill-broker",
        ABOUT["kill-broker"],
        kill_broker,
        _OVER_TABLES,
        games=300,
        nodes=NODES,
    ),
    Scenario(
        "spike",
        ABOUT["spike"],
        spikes.spike,
        _OVER_TABLES,
        players=spikes.PLAYERS,
        games=spikes.GAMES,
    ),
    Scenario(
        "poison",
        ABOUT["poison"],
        lambda run: play_fast(run.arena, run.games),
        malformed=0.02,
    ),
)
SCENARIOS = {each.name: each for each in _ALL}


def find(name: str) -> Scenario:
    """Return a scenario of games by its name."""
    if name not in SCENARIOS:
        meant = nearest(name, [*ABOUT, "list"])
        fix = f"Did you mean '{meant}'?" if meant else f"There are: {', '.join(ABOUT)}"
        raise BadInput(f"there is no scenario '{name}'", fix=fix)
    return SCENARIOS[name]
