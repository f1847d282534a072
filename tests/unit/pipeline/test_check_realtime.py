"""What `pipeline check` says of `speed: realtime`."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.errors import BadInput
from penstock.pipeline.load import load_with_warnings

FITS: dict[str, Any] = {
    "name": "now",
    "source": {"topics": ["in"]},
    "decode": {"type": "json", "schema": "id bigint NOT NULL"},
    "steps": [{"sql": "SELECT id + 1 AS id FROM events"}],
    "expect": [{"name": "positive", "that": "id > 0", "otherwise": "dead_letter"}],
    "sinks": [{"type": "kafka", "topic": "out"}],
    "speed": "realtime",
}


def checked(folder: Path, **parts: Any) -> list[str]:
    file = folder / "now.yaml"
    file.write_text(yaml.safe_dump({**FITS, **parts}))
    return load_with_warnings(file)[1]


def test_what_fits_comes_with_warnings_of_what_it_costs(tmp_path: Path) -> None:
    assert [True, True] == [
        word in warning for word, warning in zip(["closing brace", "at least once"], checked(tmp_path), strict=True)
    ]


@pytest.mark.parametrize(
    ("parts", "key", "told"),
    [
        ({"source": {"pattern": "in.*"}}, "source", "named Kafka topics"),
        ({"sinks": [{"type": "delta", "path": "t"}]}, "sinks", "it is `kafka`"),
        ({"sinks": [*FITS["sinks"], {"type": "console"}]}, "sinks", "there is one sink"),
        ({"sinks": [{"type": "kafka", "topic": "a/b"}]}, "sinks.0.topic", "a topic's name has letters"),
        ({"steps": [{"python": "json:loads"}]}, "steps.0", "SQL only"),
        ({"steps": [{"handlers": "json:JSONDecoder"}]}, "steps.0", "SQL only"),
        ({"expect": [{**FITS["expect"][0], "otherwise": "fail"}]}, "expect.0.otherwise", "drops a record"),
        ({"expect": [{**FITS["expect"][0], "otherwise": "warn"}]}, "expect.0.otherwise", "drops a record"),
        ({"rate": {"events": 5}}, "rate", "a rate limit is not possible"),
        ({"decode": {**FITS["decode"], "unknown_fields": "dead_letter"}}, "decode.unknown_fields", "are ignored"),
        ({"realtime": {"commit_every": "1s"}}, "realtime.commit_every", "5000"),
    ],
)
def test_what_expressions_cannot_do_is_refused_at_its_key(
    tmp_path: Path, parts: dict[str, Any], key: str, told: str
) -> None:
    with pytest.raises(BadInput) as caught:
        checked(tmp_path, **parts)

    assert f" {key}: " in str(caught.value)
    assert told in str(caught.value)
