"""In which order parts come up: whatever one needs comes before it."""

from collections.abc import Iterable, Mapping, Sequence

from penstock.errors import BadInput, NotFound
from penstock.wording import nearest


def in_order(
    needs: Mapping[str, Sequence[str]], wanted: Iterable[str] | None = None, also: Sequence[str] = ()
) -> list[str]:
    """Return the wanted parts, all of them if none are named, and what they need, each behind what it needs.

    Otherwise the order is that of `needs`. Raise `NotFound` for an unknown part, which may be a typo for one of `also`,
    and `BadInput` for a cycle.
    """
    names = list(needs) if wanted is None else list(wanted)
    for name in names:
        if name not in needs:
            close = nearest(name, [*needs, *also])
            known = f"Its parts are: {', '.join(needs)}" if needs else "It has none: name them in penstock.yaml"
            fix = f"Did you mean '{close}'?" if close else known
            raise NotFound(f"the project has no part '{name}'", fix=fix)
    found: list[str] = []
    for name in needs:
        if wanted is None or name in names:
            _add(name, needs, found, ())
    return found


def _add(name: str, needs: Mapping[str, Sequence[str]], found: list[str], above: tuple[str, ...]) -> None:
    if name in above:
        circle = " needs ".join(f"'{each}'" for each in (*above[above.index(name) :], name))
        raise BadInput(f"nothing can be started first: {circle}", safe="Nothing was started")
    if name in found:
        return
    for each in needs[name]:
        if each in needs:
            _add(each, needs, found, (*above, name))
    found.append(name)
