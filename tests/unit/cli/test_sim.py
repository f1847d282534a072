"""penstock sim: what cannot be used is one clear line, before anything is started."""

import pytest
from typer.testing import CliRunner

from penstock.cli import app


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ("run --games 0", 2, "--games: "),
        ("run --players -1", 2, "--players: "),
        ("run --speed warp", 2, "'live' or 'max'"),
        ("run --malformed 1", 2, "--malformed: "),
        ("run --mistakes -0.1", 2, "--mistakes: "),
        ("run --think-s -1", 2, "--think-s: "),
        ("run --to pigeon://home", 2, "no transport is known for 'pigeon://'"),
        ("players --count -1", 2, "--count: "),
        ("players --count 1", 2, "--count: "),
        ("players --games 0", 2, "--games: "),
        ("players --first -1", 2, "--first: "),
        ("players --server 127.0.0.1:80", 2, "write ws://HOST:PORT"),
        ("players --server ws://127.0.0.1:x", 2, "write ws://HOST:PORT"),
        ("players --server ws://127.0.0.1:1", 4, "no game server answers at ws://127.0.0.1:1"),
        ("serve --turn-timeout-s 0", 2, "--turn-timeout-s: "),
        ("serve --lobby-timeout-s -1", 2, "--lobby-timeout-s: "),
        ("serve --port 70000", 2, "--port: "),
        ("serve --state postgres://x", 2, "redis://HOST:PORT/0"),
        ("serve --state redis://user:canary@127.0.0.1/0", 2, "holds a password"),
        ("run --players 1", 2, "--players: it must be at least 2, not 1. Nothing was started"),
        ("run --speed fast", 2, "--speed: it must be 'live' or 'max', not fast"),
        ("serve --state redis://127.0.0.1:1/0", 4, "Redis at 127.0.0.1:1 does not answer"),
    ],
)
def test_bad_input_is_one_clear_line_with_its_exit_code(arguments: str, code: int, words: str) -> None:
    # Whatever Kafka somebody runs on this machine is none of this test's.
    said = CliRunner().invoke(app, ["--bootstrap", "127.0.0.1:1", "sim", *arguments.split()])

    assert code == said.exit_code, said.stderr
    assert "error: " == said.stderr[:7]
    assert (1, True) == (said.stderr.count("\n"), words in said.stderr), said.stderr
    assert "canary" not in said.output
