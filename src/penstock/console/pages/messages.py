"""The records of a topic: browsing from anywhere, searching all of it, sending one. They are shown as text alone.

What is shown is in the address, to be shared.
"""

import secrets
from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import UNKNOWN, Frame, heading
from penstock.console.pages.indented import indented
from penstock.console.pages.paths import topic_path
from penstock.console.pages.wording import count, exactly, in_zone, moment
from penstock.wording import plural

_SHORT = 160
_NONE = "No records here"
_LOOK_EVERY_S = 0.5
_MOST_LIVE = 200
_COLUMNS = [
    {"name": "time", "label": "Time", "field": "time", "align": "left", "sortable": True},
    {"name": "partition", "label": "Partition", "field": "partition", "align": "right", "sortable": True},
    {"name": "offset", "label": "Offset", "field": "offset", "align": "right", "sortable": True},
    {"name": "key", "label": "Key", "field": "key", "align": "left", "classes": "mono"},
    {"name": "value", "label": "Value", "field": "value", "align": "left", "classes": "mono"},
]
_ROWS = """
<q-tr :props="props" class="cursor-pointer" tabindex="0" @click="props.expand = !props.expand"
  @keydown.enter="props.expand = !props.expand" :aria-expanded="props.expand ? 'true' : 'false'">
  <q-td v-for="col in props.cols" :key="col.name" :props="props"
    :title="col.name === 'time' ? props.row.exactly : undefined">{{ col.value }}</q-td>
</q-tr>
<q-tr v-if="props.expand" :props="props"><q-td colspan="100%">
  <div class="soft small">Partition {{ props.row.partition }}, offset {{ props.row.offset }}</div>
  <div class="soft small">Key</div><pre>{{ props.row.whole_key }}</pre>
  <div class="soft small">Value, {{ props.row.bytes }}</div><pre>{{ props.row.whole_value }}</pre>
  <template v-if="props.row.headers"><div class="soft small">Headers</div><pre>{{ props.row.headers }}</pre></template>
  <button v-if="props.row.may_copy" class="open" @click="() => $parent.$emit('copy', props.row)">
  Copy to a topic</button>
</q-td></q-tr>
"""
_STARTS = {"latest": "Newest", "earliest": "Oldest", "offset": "From offset", "time": "From time"}
_HINTS = {"offset": "42", "time": "2026-01-31T12:00 or 15m"}
_COUNTS = {number: f"{number} records" for number in (50, 200, 500)}
_DOWNLOADED, _MOST_DOWNLOADED = 10_000, 100_000
_IN = {"value": "Value", "key": "Key", "header": "Header", "json_path": "JSON field = text"}


async def draw(frame: Frame, topic: str) -> None:
    """Draw the page."""
    page = _Messages(frame, topic)
    frame.draw_bar("Topics")
    with frame.main():
        with ui.element("div").classes("head"):
            with ui.element("div"):
                ui.link(topic, frame.address(page.path)).classes("plain small")
                heading("Messages", 1)
            with ui.element("div").classes("tools"):
                if frame.has_downloads:
                    ui.button("Download", on_click=page.ask_download).props("flat color=primary no-caps")
                if frame.may("operator"):
                    send = ui.button("Send a record", on_click=lambda: _send(frame, topic, page.browse))
                    send.props("outline color=primary no-caps")
        page.draw_places()
        page.draw_search()
        page.draw_table()
    frame.load_once(page.begin)


class _Messages:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame, topic: str) -> None:
        self.frame, self.topic, self.path = frame, topic, topic_path(topic)
        self.search_id = self.tail_id = ""
        self.skipped = 0

    def draw_places(self) -> None:
        """Draw where to begin."""
        begin = self.frame.query.get("start", "latest")
        kind = begin if begin in _STARTS else "offset" if begin.isdecimal() else "time"
        partition = self.frame.query.get("partition", "")
        with ui.element("div").classes("tools"):
            self.start = ui.select(_STARTS, value=kind).props('outlined dense aria-label="Where to begin"')
            self.place = ui.input(value="" if begin in _STARTS else begin).props("outlined dense")
            self.place.bind_visibility_from(self.start, "value", lambda value: value in _HINTS)
            self.start.on_value_change(lambda event: self.place.props(f'placeholder="{_HINTS.get(event.value, "")}"'))
            known = int(partition) if partition.isdecimal() else None
            self.partition = ui.number(placeholder="All partitions", value=known, min=0, precision=0)
            self.partition.props('outlined dense clearable aria-label="Partition"')
            asked = self.frame.query.get("count", "")
            most = next((each for each in _COUNTS if str(each) == asked), min(_COUNTS))
            self.count = ui.select(_COUNTS, value=most).props('outlined dense aria-label="How many"')
            ui.button("Show", on_click=self.browse).props("unelevated color=primary no-caps")
            self.live = ui.button("Watch live", on_click=self.turn_live).props("outline color=primary no-caps")
        self.place.on("keydown.enter", self.browse)

    def draw_search(self) -> None:
        """Draw what to look for."""
        with ui.element("div").classes("tools"):
            query = self.frame.query
            where = query.get("in", "")
            self.where = ui.select(_IN, value=where if where in _IN else "value")
            self.where.props('outlined dense aria-label="Search in"')
            self.words = ui.input(placeholder="Search the whole topic", value=query.get("search", ""))
            self.words.props("outlined dense clearable type=search")
            self.look = ui.button("Search", on_click=self.search).props("outline color=primary no-caps")
            self.stop = ui.button("Cancel", on_click=self.cancel).props("flat color=grey no-caps")
            self.stop.set_visibility(False)
            self.summary = ui.label().classes("soft number").props('role="status"')
        self.watch = ui.timer(_LOOK_EVERY_S, self.follow, active=False)
        self.tail = ui.timer(_LOOK_EVERY_S, self.look_live, active=False)
        self.words.on("keydown.enter", self.search)

    def draw_table(self) -> None:
        """Draw the records; each opens by a click or by Enter."""
        self.table = self.frame.table(_COLUMNS, "id", _NONE)
        self.table.classes("records").add_slot("body", _ROWS)
        self.table.on("copy", lambda event: _copy(self.frame, self.topic, event.args))

    def show(self, records: list[dict[str, Any]], empty: str = _NONE) -> None:
        """Put records into the table, or say why there are none."""
        self.frame.when_empty(self.table, empty)
        self.table.rows = [_row(each, self.frame) for each in records]
        self.frame.is_loaded()

    async def begin(self) -> None:
        """Show what the address asks for."""
        if self.words.value:
            await self.search()
        else:
            await self.browse()

    @property
    def _begin(self) -> str:
        """Where it says to begin; a time that is typed is one of the reader's zone, as all that are shown."""
        typed = in_zone(self.place.value or "", self.frame.zone) if self.start.value in _HINTS else self.start.value
        return typed or "latest"

    def _keep_address(self, **searched: Any) -> None:
        begin, partition = "" if self._begin == "latest" else self._begin, _whole(self.partition.value)
        count_asked = None if self.count.value == min(_COUNTS) else self.count.value
        chosen = {"start": begin, "partition": None if partition is None else str(partition), "count": count_asked}
        self.frame.keep_address(f"{self.path}/messages", **chosen, **searched)

    async def browse(self) -> None:
        """Show records from where it says."""
        self.table.props("loading")
        self._keep_address()
        asked = {"start": self._begin, "partition": _whole(self.partition.value), "count": self.count.value}
        found = await self.frame.act(lambda: self.frame.client.get(f"{self.path}/messages", **asked), "")
        records = found["records"] if found else []
        shown = records[::-1] if self.start.value == "latest" else records
        self.show(shown, UNKNOWN if found is None else _NONE)
        more = "" if found is None or found["is_whole"] else ", and more"
        self.summary.text = "" if found is None else f"{plural(len(records), 'record')}{more}"

    async def turn_live(self) -> None:
        """Watch records as they arrive, or watch no longer."""
        if self.tail.active:
            self._watching(is_on=False)
            await self.frame.act(lambda: self.frame.client.act("DELETE", f"/tails/{self.tail_id}"), "")
            return
        body = {"topic": self.topic, "partition": _whole(self.partition.value)}
        begun = await self.frame.act(lambda: self.frame.client.act("POST", "/tails", body), "")
        if begun is not None:
            self.tail_id, self.skipped = begun["id"], 0
            self.show([])
            self.summary.text = "Waiting for records …"
            self._watching(is_on=True)

    async def look_live(self) -> None:
        """Show what came, the newest first; no more than a page is kept."""
        came = await self.frame.act(lambda: self.frame.client.get(f"/tails/{self.tail_id}"), "")
        if came is None or came["state"] != "running":
            self._watching(is_on=False)
        if came is None or not (came["records"] or came["skipped"] or came["problem"]):
            return
        self.skipped += came["skipped"]
        newest = [_row(each, self.frame) for each in came["records"][::-1]]
        self.table.rows = [*newest, *self.table.rows][:_MOST_LIVE]
        passed = f", {count(self.skipped)} went by too fast to be shown" if self.skipped else ""
        self.summary.text = came["problem"] or f"The newest {plural(len(self.table.rows), 'record')}{passed}"

    def _watching(self, *, is_on: bool) -> None:
        self.tail.active = is_on
        self.live.text = "Stop watching" if is_on else "Watch live"

    async def search(self) -> None:
        """Begin to look through the topic."""
        words = self.words.value or ""
        asked = {self.where.value: words}
        if self.where.value == "json_path":
            name, sign, wanted = words.partition("=")
            asked = {"json_path": name.strip(), **({"equals": wanted.strip()} if sign else {})}
        body = {"topic": self.topic, "partition": _whole(self.partition.value), **asked}
        self._keep_address(**{"search": words, "in": "" if self.where.value == "value" else self.where.value})
        begun = await self.frame.act(lambda: self.frame.client.act("POST", "/searches", body), "")
        if begun is not None:
            self.search_id = begun["id"]
            self._searching(is_on=True)

    async def follow(self) -> None:
        """Show how far the search is, and what it found."""
        found = await self.frame.act(lambda: self.frame.client.get(f"/searches/{self.search_id}"), "")
        if found is not None:
            self.show(found["found"])
            problem = f": {found['problem']}" if found["problem"] else ""
            seen = f"{count(found['looked_at'])} of {plural(found['total'], 'record')}"
            self.summary.text = f"{count(len(found['found']))} found in {seen}, {found['state']}{problem}"
        if found is None or found["state"] != "running":
            self._searching(is_on=False)

    async def cancel(self) -> None:
        """End the search."""
        await self.frame.act(lambda: self.frame.client.act("DELETE", f"/searches/{self.search_id}"), "")

    def ask_download(self) -> None:
        """Ask which records to take away."""
        dialog, card = ask(
            "Download records", "As JSON lines, those of a partition in their order, as they are shown here."
        )
        with card:
            start = ui.input("From", value=self._begin.replace("latest", "earliest"))
            start.props('outlined dense placeholder="earliest, an offset, a time or 15m"')
            partition = ui.number("Partition", value=self.partition.value, min=0, precision=0)
            partition.props('outlined dense clearable stack-label placeholder="all"')
            most = ui.number("Records at most", value=_DOWNLOADED, min=1, max=_MOST_DOWNLOADED, precision=0)
            most.props("outlined dense")

            async def do() -> None:
                begin = in_zone(start.value or "", self.frame.zone) or "earliest"
                asked = {"start": begin, "partition": _whole(partition.value)}
                first = lambda: self.frame.client.get(f"{self.path}/messages", **asked, count=1)  # noqa: E731 - asked once
                if await self.frame.act(first, "") is None:
                    return  # a mistake is said here, and not as the file
                given = {name: value for name, value in asked.items() if value is not None}
                given["count"] = int(most.value or _DOWNLOADED)
                ui.navigate.to(self.frame.address(f"/api/v1{self.path}/messages/download?{urlencode(given)}"))
                dialog.close()

            ends(dialog, "Download the file", do)

    def _searching(self, *, is_on: bool) -> None:
        self.watch.active = is_on
        self.stop.set_visibility(is_on)
        self.look.set_enabled(not is_on)


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)


def _row(record: dict[str, Any], frame: Frame) -> dict[str, Any]:
    key, value = record["key"], record["value"]
    seconds = None if record["timestamp_ms"] is None else record["timestamp_ms"] / 1000
    headers = "\n".join(f"{name}: {'' if content is None else content['text']}" for name, content in record["headers"])
    return {
        "id": f"{record['partition']}/{record['offset']}",
        "partition": record["partition"],
        "offset": record["offset"],
        "time": moment(seconds, frame.zone),
        "exactly": exactly(seconds),
        "key": "" if key is None else key["text"][:_SHORT],
        "value": "tombstone" if value is None else " ".join(value["text"][:_SHORT].split()),
        "whole_key": "none" if key is None else key["text"],
        "whole_value": "none: a tombstone" if value is None else pretty(value),
        "bytes": "0 bytes" if value is None else _described(value),
        "headers": headers,
        "may_copy": frame.may("operator"),
    }


def _described(content: dict[str, Any]) -> str:
    schema = "" if content["schema_id"] is None else f", by schema {content['schema_id']}"
    return f"{content['bytes']:,} bytes{schema}" + (", cut" if content["is_cut"] else "")


def pretty(content: dict[str, Any]) -> str:
    """Indent what is JSON, and leave all else as it is."""
    text: str = content["text"]
    return text if content["encoding"] != "text" or content["is_cut"] else indented(text)


def _copy(frame: Frame, topic: str, row: dict[str, Any]) -> None:
    """Ask which topic a record goes to."""
    action_id = secrets.token_hex(16)
    text = f"The record at offset {row['offset']} of partition {row['partition']} is sent once more, as it is."
    dialog, card = ask("Copy the record", text)
    with card:
        to = ui.input("To the topic", value=topic).props("outlined dense autofocus")

        async def do() -> None:
            body = {"partition": row["partition"], "offset": row["offset"], "to": (to.value or "").strip()}
            path, done = f"{topic_path(topic)}/messages/copy", f"Topic '{body['to']}' has the record"
            if await frame.act(lambda: frame.client.act("POST", path, body, action_id=action_id), done) is not None:
                dialog.close()

        ends(dialog, "Copy", do)


def _headers(typed: str) -> list[tuple[str, str]]:
    pairs = [line.partition(":") for line in typed.splitlines() if line.strip()]
    return [(name.strip(), content.strip()) for name, _, content in pairs]


def _send(frame: Frame, topic: str, after: Any) -> None:
    """Ask for a record to send."""
    action_id = secrets.token_hex(16)
    dialog = ui.dialog(value=True)
    dialog.on("hide", dialog.delete)
    with dialog, ui.card():
        heading("Send a record", 2)
        key = ui.input("Key").props("outlined dense")
        value = ui.textarea("Value").props("outlined dense autofocus input-class=mono")
        is_tombstone = ui.checkbox("No value: a tombstone, which deletes the key of a compacted topic")
        value.bind_enabled_from(is_tombstone, "value", lambda ticked: not ticked)
        headers = ui.textarea("Headers", placeholder="name: content, one a line")
        headers.props("outlined dense autogrow stack-label input-class=mono")
        partition = ui.number("Partition", min=0, precision=0)
        partition.props('outlined dense stack-label placeholder="by the key"')

        async def do() -> None:
            sent = None if is_tombstone.value else value.value or ""
            body = {"key": key.value or None, "value": sent, "headers": _headers(headers.value or "")}
            body["partition"] = _whole(partition.value)
            path = f"{topic_path(topic)}/messages"
            done = "Every replica in sync has the record"
            if await frame.act(lambda: frame.client.act("POST", path, body, action_id=action_id), done) is not None:
                dialog.close()
                await after()

        with ui.element("div").classes("ends"):
            ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
            ui.button("Send", on_click=do).props("unelevated color=primary no-caps")
