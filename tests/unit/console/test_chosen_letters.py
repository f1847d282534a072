"""Which dead letters a request means is said once: by a filter, or by their places."""

from pathlib import Path
from typing import Any

import pytest

from support.consoles import open_console

PLACE = {"topic": "orders.dead", "partition": 0, "offset": 1}


@pytest.mark.parametrize("what", ["discard", "replay"])
@pytest.mark.parametrize(
    "body",
    [
        {},
        {"count": 1},
        {"filter": {}, "letters": [PLACE]},
        {"letters": []},
        {"letters": [{**PLACE, "offset": -1}]},
        {"letters": [{**PLACE, "pipeline": "orders"}]},
        {"letters": [PLACE] * 1_001},
    ],
)
def test_a_request_that_does_not_say_which_letters_it_means_is_refused(
    what: str, body: dict[str, Any], tmp_path: Path
) -> None:
    ask = open_console(tmp_path, "127.0.0.1:1")

    assert 422 == ask("POST", f"/dead-letters/{what}", body).status_code
