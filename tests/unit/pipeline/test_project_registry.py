"""Pipelines that name no registry ask the project's; whoever names one asks that one."""

from typing import Any

import pytest

from penstock.errors import NotFound
from penstock.pipeline.spec import PipelineSpec
from penstock.schemas.client import client_of
from penstock.schemas.registry import Registry, with_registry

ANOTHER = "http://127.0.0.1:2"
THE_PROJECTS = Registry(url="http://127.0.0.1:1")


def spec(decode: dict[str, Any], encode: dict[str, Any]) -> PipelineSpec:
    return PipelineSpec.model_validate(
        {
            "name": "orders",
            "source": {"topics": ["orders"]},
            "decode": decode,
            "sinks": [{"type": "kafka", "topic": "out", "encode": encode}, {"type": "delta", "path": "t"}],
        }
    )


@pytest.mark.parametrize(
    "decode",
    [{"type": "avro"}, {"type": "protobuf"}, {"type": "json", "schema": "registry", "registry": "project"}],
)
def test_a_registry_that_is_left_out_or_called_project_is_the_projects(decode: dict[str, Any]) -> None:
    filled = with_registry(spec(decode, {}), lambda: THE_PROJECTS)

    found: Any = filled
    assert [THE_PROJECTS, THE_PROJECTS] == [found.decode.registry, found.sinks[0].encode.registry]


def test_one_that_is_named_stays_and_nobody_looks_for_the_projects() -> None:
    def find() -> Registry:
        raise AssertionError

    written = spec({"type": "avro", "registry": ANOTHER}, {"registry": {"url": ANOTHER}})

    assert written is with_registry(written, find)


def test_without_a_project_there_is_one_line_about_it() -> None:
    with pytest.raises(NotFound, match="no schema registry is named") as told:
        client_of(spec({"type": "avro"}, {}).decode.registry)  # type: ignore[union-attr]

    assert "Name its address as `registry`" == told.value.fix
