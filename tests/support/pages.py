"""The blocks of a Markdown page, in order, as a reader finds them.

A block whose introduction ends with a file's name, as in "in `orders.yaml`:", is that file. What else a block needs is
said in a comment of the page's source right above it:

    <!-- not run: why -->          nobody but its reader can run it
    <!-- part of: examples/... -->  it is shown from there, word for word
    <!-- wrong: why -->             it is refused on purpose
    <!-- varies: 18.0 e8544a00 -->  words of its output that differ from run to run
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN, WRITTEN, SHOWN = {"console", "python", "sh"}, {"csv", "json", "toml", "yaml"}, {"text"}
# Typed by `make test`, with one Spark for all; and by `make soak`, as installed, together with those that take longer.
PAGES = ["docs/clients.md", "docs/handlers.md", "docs/tutorial.md"]
SLOW_PAGES = [
    "docs/connect.md",
    "docs/concepts.md",
    "docs/drills.md",
    "docs/examples.md",
    "docs/pipelines.md",
    "docs/security.md",
    "docs/simulator.md",
    "docs/superhero.md",
    "docs/testing.md",
    "docs/transports.md",
]
_FENCE = re.compile(r"^```(\w*)$")
_COMMENT = re.compile(r"^<!-- (not run|part of|varies|wrong): (.+) -->$")
_FILE = re.compile(r"`([\w./-]+\.\w+)`:$")
_HEREDOC = re.compile(r"<<-?'?(\w+)'?")
_OPERATORS = {"|", "||", "&", "&&", ";", "(", ")", "do", "then"}
_REDIRECTIONS = {"<", ">", ">>", ">&", "<<"}


@dataclass(frozen=True)
class Block:
    """A fenced block, and what the page says of it."""

    page: str
    line: int
    language: str
    text: str
    file: str = ""
    not_run: str = ""
    part_of: str = ""
    wrong: str = ""
    varies: tuple[str, ...] = ()

    @property
    def where(self) -> str:
        """Name the block as editors and compilers name a line."""
        return f"{self.page}:{self.line}"

    @property
    def is_run(self) -> bool:
        """Return whether the block does something when its page is typed."""
        return self.language in RUN and not (self.file or self.not_run or self.part_of)

    def steps(self) -> list[tuple[str, list[str]]]:
        """Return the commands of a `console` block, each with the lines that it answers."""
        found: list[tuple[str, list[str]]] = []
        for line in self.text.splitlines():
            if line.startswith("$ "):
                found.append((line.removeprefix("$ "), []))
            else:
                assert found, f"{self.where}: a console block begins with a command"
                found[-1][1].append(line)
        return found

    def script(self) -> str:
        """Return what is typed."""
        return "\n".join(command for command, _ in self.steps()) if self.language == "console" else self.text


def pages() -> list[str]:
    """Name README and every page of the documentation."""
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
    return [str(each.relative_to(ROOT)) for each in found]


def text_of(page: str) -> str:
    """Read a page."""
    return (ROOT / page).read_text(encoding="utf-8")


@cache
def blocks(page: str) -> tuple[Block, ...]:
    """Return the blocks of a page, in order."""
    return tuple(_blocks(page))


def _blocks(page: str) -> Iterator[Block]:
    said: dict[str, str] = {}
    before, begun, language, inside = "", 0, "", list[str]()
    for number, line in enumerate(text_of(page).splitlines(), start=1):
        if begun and line == "```":
            yield Block(
                page,
                begun,
                language,
                "".join(f"{each}\n" for each in inside),
                file=match[1] if (match := _FILE.search(before)) else "",
                not_run=said.get("not run", ""),
                part_of=said.get("part of", ""),
                wrong=said.get("wrong", ""),
                varies=tuple(said.get("varies", "").split()),
            )
            begun, before, said = 0, "", {}
        elif begun:
            inside.append(line)
        elif fence := _FENCE.match(line):
            begun, language, inside = number, fence[1], []
        elif comment := _COMMENT.match(line):
            said[comment[1]] = comment[2]
        elif line:
            before, said = line, {}


def commands(script: str) -> list[list[str]]:
    """Return the arguments of every `penstock` in a script."""
    found: list[list[str]] = []
    lines = iter(script.replace("\\\n", " ").splitlines())
    for line in lines:
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split = True
        here: list[str] | None = None
        at_start, skip = True, False
        for word in words:
            if word in _OPERATORS:
                here, at_start = None, True
            elif word in _REDIRECTIONS or skip:
                skip = word in _REDIRECTIONS
            elif here is not None:
                here.append(word)
            elif at_start and re.fullmatch(r"\w+=\S*", word):
                continue
            else:
                at_start = at_start and word == "penstock"
                if at_start:
                    found.append(here := [])
                    at_start = False
        if heredoc := _HEREDOC.search(line):
            while next(lines, heredoc[1]) != heredoc[1]:
                pass
    return found
