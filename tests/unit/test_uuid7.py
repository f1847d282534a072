"""UUIDs that begin with a time."""

from penstock.uuid7 import uuid7


def test_time_version_and_variant_are_where_they_belong_and_the_rest_is_chance() -> None:
    found = uuid7(1_772_366_400_000, 2**80 - 1)

    assert 0x7FFF_BFFF_FFFF_FFFF_FFFF == found.int & (2**80 - 1)
    assert (1_772_366_400_000, 7, "specified in RFC 4122") == (found.int >> 80, found.version, found.variant)


def test_a_time_that_has_no_room_takes_none_from_the_rest() -> None:
    assert (2**48 - 1, 0) == (uuid7(-1, 0).int >> 80, uuid7(-1, 0).int & (2**62 - 1))
