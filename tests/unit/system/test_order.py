import pytest

from penstock.errors import BadInput, NotFound
from penstock.system.order import in_order

NEEDS = {"registry": (), "podium": ("combat",), "console": (), "combat": ("registry",)}


def test_every_part_comes_behind_what_it_needs_and_otherwise_in_the_order_of_the_file() -> None:
    assert ["registry", "combat", "podium", "console"] == in_order(NEEDS)


def test_a_named_part_brings_what_it_needs_and_nothing_else() -> None:
    assert ["registry", "combat", "podium"] == in_order(NEEDS, ["podium"])
    assert [] == in_order(NEEDS, [])


def test_a_name_that_is_no_part_is_told_with_the_one_that_was_probably_meant() -> None:
    with pytest.raises(NotFound, match=r"no part 'consle'\. Did you mean 'console'"):
        in_order(NEEDS, ["consle"])


def test_a_name_that_may_be_meant_for_what_is_no_part_yet_is_told_with_it() -> None:
    with pytest.raises(NotFound, match=r"no part 'gatway'\. Did you mean 'gateway'"):
        in_order({}, ["gatway"], ("kafka", "gateway"))


def test_parts_that_need_each_other_are_refused_with_the_circle() -> None:
    with pytest.raises(BadInput, match="'a' needs 'b' needs 'a'"):
        in_order({"a": ("b",), "b": ("a",)})
