"""Masking: which parts of records nobody sees in the console, whatever their role.

Rules are in `console/masks.yaml` of the home folder, which is read again when it has changed. What cannot be masked
part by part, because it is not JSON, too long or nested too deep, is hidden whole. Searches look at what is shown, so
that nobody finds out by searching what is hidden. A dead letter is covered by the rules of the topic that it came from,
wherever it is, and what its error said is hidden with it: such texts quote values.

Hidden without a rule is what pages and routes of their own show to some alone, or in part: the audit, and the settings
of connectors. Beside these Connect keeps the key by which workers know each other's requests.
"""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Message
from pydantic import BaseModel, Field, field_validator

from penstock.config import document
from penstock.console.records import Content, Record, content_of, record_of
from penstock.delivery.dead_envelope import PREFIX
from penstock.delivery.dead_letter import DeadLetter
from penstock.delivery.selection import DEAD

HIDDEN = "***"
_SOURCE = f"{PREFIX}topic"
_MESSAGE = f"{PREFIX}message"
_DEEPEST = 8


class Rule(BaseModel, frozen=True, extra="forbid"):
    """What is hidden in some topics."""

    topics: str = Field(".*", description="Regular expression that the whole name of a topic fits.")
    fields: list[str] = Field(default_factory=list, description="Names of fields of JSON values, at any depth.")
    headers: list[str] = Field(default_factory=list, description="Names of headers.")
    key: bool = Field(default=False, description="Whether keys are hidden.")
    value: bool = Field(default=False, description="Whether values are hidden whole.")

    @field_validator("topics")
    @classmethod
    def _is_pattern(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"this is not a regular expression: {error}") from None
        return value


class Rules(BaseModel, frozen=True, extra="forbid"):
    """The file of rules."""

    rules: list[Rule] = Field(default_factory=list, description="The rules; each one that fits counts.")


class Masks:
    """The rules of one console."""

    def __init__(
        self, path: Path, read: Callable[[Any], Content | None] = content_of, hidden: Collection[str] = ()
    ) -> None:
        self._path = path
        self._read = read
        self._hidden = [Rule(topics=re.escape(each), key=True, value=True) for each in hidden]
        self._known: tuple[int, list[Rule]] | None = None

    def record_of(self, message: Message) -> Record:
        """Return a record as it may be shown; raise `BadInput` if the rules cannot be read."""
        return self.masked(record_of(message, self._read))

    def masked(self, record: Record) -> Record:
        """Return a record with what the rules say hidden."""
        rules = self._of_record(record)
        if not rules:
            return record
        fields = {name for each in rules for name in each.fields}
        headers = {_MESSAGE, *(name for each in rules for name in each.headers)}
        value = record.value
        if value is not None and any(each.value for each in rules):
            value = _hidden(value)
        elif value is not None and fields:
            value = _without(value, fields)
        return record.model_copy(
            update={
                "key": _hidden(record.key) if record.key and any(each.key for each in rules) else record.key,
                "value": value,
                "headers": [
                    (name, _hidden(found) if found and name in headers else found) for name, found in record.headers
                ],
            }
        )

    def letter(self, letter: DeadLetter) -> DeadLetter:
        """Return a dead letter as it may be shown."""
        hides = self._of(letter.dead_topic, letter.topic)
        return letter.model_copy(update={"message": HIDDEN}) if hides else letter

    def applies_to(self, topic: str) -> bool:
        """Return whether something of every record of a topic is hidden."""
        return bool(self._of(topic))

    def applies_to_record(self, message: Message) -> bool:
        """Return whether something of a record is hidden: by its topic, or as the dead letter of another."""
        return bool(self._of_record(record_of(message)))

    def _of_record(self, record: Record) -> list[Rule]:
        sources = [found.text for name, found in record.headers if name == _SOURCE and found is not None]
        return self._of(record.topic, *sources)

    def _of(self, *topics: str) -> list[Rule]:
        """Return the rules of topics; their dead letters, and those of these, are the same records."""
        names = {name for topic in topics for name in _origins(topic)}
        rules = (*self._hidden, *self.rules())
        return [each for each in rules if any(re.fullmatch(each.topics, name) for name in names)]

    def rules(self) -> list[Rule]:
        """Return the rules as they are now."""
        try:
            changed_ns = self._path.stat().st_mtime_ns
        except FileNotFoundError:
            return []
        known = self._known
        if known is None or known[0] != changed_ns:
            known = self._known = (changed_ns, document.load(self._path, Rules).rules)
        return known[1]


def _origins(topic: str) -> Iterator[str]:
    for _ in range(_DEEPEST):
        yield topic
        topic = topic.removesuffix(DEAD)


def _hidden(content: Content) -> Content:
    return content.model_copy(update={"text": HIDDEN, "encoding": "text", "is_cut": False})


def _without(content: Content, fields: set[str]) -> Content:
    if content.is_cut or content.encoding != "text":
        return _hidden(content)
    try:
        text = orjson.dumps(_masked(orjson.loads(content.text), fields)).decode()
    except (orjson.JSONDecodeError, TypeError, RecursionError):  # no JSON, or nested too deep to be written again
        return _hidden(content)
    return content.model_copy(update={"text": text})


def _masked(found: Any, fields: set[str]) -> Any:
    if isinstance(found, dict):
        return {name: HIDDEN if name in fields else _masked(each, fields) for name, each in found.items()}
    return [_masked(each, fields) for each in found] if isinstance(found, list) else found
