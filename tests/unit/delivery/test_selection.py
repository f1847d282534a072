import pytest

from penstock.delivery.selection import Filter
from penstock.errors import BadInput


@pytest.mark.parametrize("text", ["foo", "earliest", "42", "2026-13-01"])
def test_what_is_no_time_is_refused_with_what_a_time_looks_like(text: str) -> None:
    with pytest.raises(BadInput, match=f"^'{text}' is not a time: say 2026-01-31T12:00, or 15m for 15 minutes ago$"):
        list(Filter(since=text).chosen([]))
