import random
import re
from collections.abc import Iterator

import pytest

from penstock.kafka.security.jaas import login_module

Entry = tuple[str, str, dict[str, str]]
_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OCTAL = re.compile(r"[0-3][0-7]{0,2}|[4-7][0-7]?")


def quoted(line: str, start: int) -> tuple[str, int]:
    """Read what stands in quotes as Java's StreamTokenizer does: a bare line end closes it, too."""
    value, at = "", start
    while at < len(line) and line[at] not in '"\n\r':
        if line[at] != "\\":
            value, at = value + line[at], at + 1
        elif octal := _OCTAL.match(line, at + 1):
            value, at = value + chr(int(octal[0], 8)), octal.end()
        else:
            value, at = value + _SIMPLE.get(line[at + 1], line[at + 1]), at + 2
    return value, at + 1


def tokens(line: str) -> Iterator[tuple[str, str]]:
    at = 0
    while at < len(line):
        if word := re.compile(r"[A-Za-z_$][\w.$-]*").match(line, at):
            at = word.end()
            yield "word", word[0]
        elif line[at] == '"':
            value, at = quoted(line, at + 1)
            yield "quoted", value
        else:
            if line[at] > " ":
                yield line[at], line[at]
            at += 1


def parse(line: str) -> list[Entry]:
    """Read login modules as Kafka's JaasConfig does: module, flag, then key = value until a semicolon."""
    entries: list[Entry] = []
    stream = tokens(line)
    for kind, module in stream:
        assert kind == "word", f"{module!r} is no module"
        flag = next(stream)[1]
        options: dict[str, str] = {}
        for key_kind, key in stream:
            if key_kind == ";":
                break
            assert next(stream)[0] == "=", f"{key!r} has no value"
            options[key] = next(stream)[1]
        entries.append((module, flag, options))
    return entries


def test_a_plain_login_reads_like_kafkas_documentation() -> None:
    expected = 'a.b.Module required username="orders" password="word";'

    assert expected == login_module("a.b.Module", username="orders", password="word")


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("", id="empty"),
        pytest.param('x" admin="true', id="closing quote"),
        pytest.param('x"; evil.Module required x="', id="second module"),
        pytest.param('x\\"; evil.Module required x="', id="escaped quote"),
        pytest.param("x\\", id="backslash at the end"),
        pytest.param("\\042; evil.Module required x=\\042", id="octal quote"),
        pytest.param("\\n\\t\\101", id="looks escaped"),
        pytest.param("x\n; evil.Module required;", id="line end"),
        pytest.param("x\r\n", id="CRLF"),
        pytest.param("// x /* y */ # z", id="comment"),
        pytest.param("'x' = ;", id="single quotes"),
        pytest.param("é ☃ \U0001f512 \x00\x7f", id="not ASCII"),
    ],
)
def test_no_value_can_add_an_option_or_a_module(value: str) -> None:
    expected: list[Entry] = [("a.b.Module", "required", {"username": value, "password": value})]

    assert expected == parse(login_module("a.b.Module", username=value, password=value))


def test_any_value_is_read_back_as_it_went_in() -> None:
    dice = random.Random(11)
    alphabet = "\"\\;\n\r\t ='/*#{}ab07nrtxé"
    values = ["".join(dice.choices(alphabet, k=dice.randrange(30))) for _ in range(2000)]
    pairs = list(zip(values[::2], values[1::2], strict=True))

    lines = [login_module("a.b.Module", username=name, password=word) for name, word in pairs]

    expected: list[list[Entry]] = [
        [("a.b.Module", "required", {"username": name, "password": word})] for name, word in pairs
    ]
    assert expected == [parse(line) for line in lines]
    assert [] == [line for line in lines if len(line.splitlines()) > 1]
