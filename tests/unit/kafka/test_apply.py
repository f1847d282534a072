import pytest

from penstock.kafka.apply import _may_delete

DAY, WEEK = "86400000", "604800000"


@pytest.mark.parametrize("key", ["retention.ms", "retention.bytes"])
@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        pytest.param(WEEK, DAY, True, id="shorter"),
        pytest.param(DAY, WEEK, False, id="longer"),
        pytest.param(DAY, DAY, False, id="the same"),
        pytest.param("-1", WEEK, True, id="from no limit to one"),
        pytest.param(WEEK, "-1", False, id="from a limit to none"),
        pytest.param("-1", "-1", False, id="no limit as before"),
        pytest.param("", WEEK, True, id="from unknown to a limit"),
        pytest.param("", "-1", False, id="from unknown to no limit"),
        pytest.param(WEEK, "0", True, id="to nothing"),
        pytest.param("1000", "999", True, id="a digit fewer"),
        pytest.param("9", "10", False, id="compared as numbers"),
    ],
)
def test_a_tighter_limit_may_delete(key: str, old: str, new: str, *, expected: bool) -> None:
    assert expected == _may_delete(key, old, new)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("delete", "compact", True),
        ("compact", "delete", True),
        ("delete", "compact,delete", True),
        ("compact", "compact,delete", True),
        ("compact,delete", "delete", False),
        ("compact,delete", "compact", False),
        ("delete,compact", "compact,delete", False),
        ("delete", "delete", False),
        ("", "delete", True),
    ],
)
def test_a_cleanup_that_was_not_done_before_may_delete(old: str, new: str, *, expected: bool) -> None:
    assert expected == _may_delete("cleanup.policy", old, new)


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("min.insync.replicas", "2", "1"),
        ("segment.bytes", "1073741824", "1048576"),
        ("compression.type", "producer", "zstd"),
        ("max.message.bytes", "1048588", "1000"),
        ("preallocate", "false", "true"),
    ],
)
def test_no_other_setting_deletes(key: str, old: str, new: str) -> None:
    assert not _may_delete(key, old, new)
