"""All drills, in the order in which `penstock drill all` runs them."""

import difflib

from penstock.errors import BadInput
from penstock.lab.drills import (
    acks,
    commits,
    compaction,
    groups,
    keys,
    leaders,
    queue_or_log,
    rebalance,
    retention,
    semantics,
    transactions,
)
from penstock.lab.drills.drill import Drill

DRILLS: dict[str, Drill] = {
    module.DRILL.name: module.DRILL
    for module in (
        keys,
        leaders,
        acks,
        groups,
        rebalance,
        commits,
        semantics,
        transactions,
        retention,
        compaction,
        queue_or_log,
    )
}
ALL = "all"


def choose(names: list[str]) -> list[Drill]:
    """Find drills by name; `all` stands for every one, and none is given twice."""
    for name in names:
        if name not in {*DRILLS, ALL}:
            nearest = difflib.get_close_matches(name, [*DRILLS, ALL, "list"], n=1)
            hint = f"Did you mean '{nearest[0]}'?" if nearest else f"There are {', '.join(DRILLS)}"
            raise BadInput(f"there is no drill '{name}'", fix=hint)
    return [drill for drill in DRILLS.values() if ALL in names or drill.name in names]
