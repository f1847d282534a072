"""All drills: each is in the module of its name."""

from importlib import import_module

from penstock.errors import BadInput
from penstock.lab.drills.drill import Drill
from penstock.lab.drills.names import NAMES
from penstock.wording import nearest

DRILLS: dict[str, Drill] = {
    name: import_module(f"penstock.lab.drills.{name.replace('-', '_')}").DRILL for name in NAMES
}
ALL = "all"


def choose(names: list[str]) -> list[Drill]:
    """Find drills by name; `all` stands for every one, and none is given twice."""
    for name in names:
        if name not in {*DRILLS, ALL}:
            meant = nearest(name, [*DRILLS, ALL, "list"])
            hint = f"Did you mean '{meant}'?" if meant else f"There are {', '.join(DRILLS)}"
            raise BadInput(f"there is no drill '{name}'", fix=hint)
    return [drill for drill in DRILLS.values() if ALL in names or drill.name in names]
