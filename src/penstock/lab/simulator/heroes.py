"""The roster: made from word parts and dice, the same in every run."""

from dataclasses import dataclass

from penstock.lab.simulator.dice import Dice

COUNT = 240

_FIRST = (
    "Amber Basalt Bramble Cinder Cobalt Copper Drizzle Dusk Fathom Gale Granite Hollow Indigo Juniper Kelp Lichen "
    "Marble Mistral Nimbus Ochre Pewter Quill Rime Saffron Slate Sorrel Thistle Tundra Umber Velvet Willow Zephyr"
)
_SECOND = (
    "Anvil Badger Beekeeper Cartographer Drummer Ferryman Gardener Glazier Heron Kestrel Locksmith Mason Navigator "
    "Otter Piper Plough Saddler Stoker Tailor Umpire Warden Weaver Winch Wren"
)
_ATTACK = (8, 30)
_HEALTH = (60, 140)


@dataclass(frozen=True, slots=True)
class Hero:
    """A fighter: what a blow takes off, about, and how much it can bear."""

    hero_id: str
    name: str
    attack: int
    health: int


def _make_roster() -> tuple[Hero, ...]:
    dice = Dice.named("roster")
    names = dice.sample([f"{first} {second}" for first in _FIRST.split() for second in _SECOND.split()], COUNT)
    return tuple(
        Hero(f"H{number:03d}", name, _between(dice, _ATTACK), _between(dice, _HEALTH))
        for number, name in enumerate(names, start=1)
    )


def _between(dice: Dice, limits: tuple[int, int]) -> int:
    low, high = limits
    return low + dice.below(high - low + 1)


ROSTER = _make_roster()
BY_ID = {hero.hero_id: hero for hero in ROSTER}
