"""One topic: partitions, settings, how fast it grows, and what can be done with it."""

import secrets
from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER
from penstock.console.pages.charts import group_chart, rate_chart, show_group, show_rate
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.paths import group_path, pipeline_path, topic_path
from penstock.console.pages.wording import count, size
from penstock.wording import plural

_FOR_GOOD, _COUNTING = "It cannot be undone.", "Counting …"
_PARTITIONS = [
    {"name": "partition", "label": "Partition", "field": "partition", "align": "right", "sortable": True},
    {"name": "leader", "label": "Leader", "field": "leader", "align": "right", "sortable": True},
    {"name": "replicas", "label": "Replicas", "field": "replicas", "align": "left"},
    {"name": "isr", "label": "In sync", "field": "isr", "align": "left"},
    {"name": "start", "label": "First offset", "field": "start", "align": "right", ":format": NUMBER},
    {"name": "end", "label": "Next offset", "field": "end", "align": "right", ":format": NUMBER},
    {"name": "records", "label": "Records", "field": "records", "align": "right", "sortable": True, ":format": NUMBER},
]
_USERS = [
    {"name": "name", "label": "Name", "field": "name", "align": "left"},
    {"name": "what", "label": "What it is", "field": "what", "align": "left"},
    {"name": "lag", "label": "Lag here", "field": "lag", "align": "right", "sortable": True, ":format": NUMBER},
]
_SETTINGS = [
    {"name": "name", "label": "Setting", "field": "name", "align": "left", "sortable": True},
    {"name": "value", "label": "Value", "field": "value", "align": "left", "classes": "mono"},
    {"name": "own", "label": "From", "field": "own", "align": "left", "sortable": True},
]


async def draw(frame: Frame, topic: str) -> None:
    """Draw the page."""
    path = topic_path(topic)
    known: list[dict[str, Any]] = []  # its settings, as they were seen last
    frame.draw_bar("Topics")
    with frame.main():
        with ui.element("div").classes("head"):
            heading(topic, 1)
            with ui.element("div").classes("tools"):
                ui.link("Messages", frame.address(f"{path}/messages")).classes("plain")
                if frame.may("admin"):
                    with (
                        ui.button("Change", icon="expand_more").props(
                            "outline color=primary no-caps dense padding='4px 12px'"
                        ),
                        ui.menu(),
                    ):
                        ui.menu_item("Add partitions", lambda: _grow(frame, topic, reload))
                        ui.menu_item("Retention", lambda: _alter(frame, topic, reload))
                        ui.menu_item("Another setting", lambda: _set(frame, topic, known, reload))
                        ui.menu_item("Purge records", lambda: _purge(frame, topic, reload))
                        ui.menu_item("Delete topic", lambda: _delete(frame, topic))
        figures = ui.element("section").classes("figures")
        going = ui.label().classes("soft")
        with ui.element("div").classes("columns"):
            with ui.element("section").classes("part"):
                heading("Records written a second", 2)
                chart = rate_chart()
            with ui.element("section").classes("part"):
                heading("Lag of its groups", 2)
                behind = group_chart()
        with ui.element("section").classes("part"):
            heading("Read and written by", 2)
            users = frame.table(_USERS, "id", "No group and no pipeline of this project")
            users.add_slot("body-cell-name", LINK)
        with ui.element("section").classes("part"):
            heading("Partitions", 2)
            partitions = frame.table(_PARTITIONS, "partition", "No partitions")
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                heading("Settings", 2)
                own_only = ui.checkbox("Only those that differ from the default", value=True)
            settings = frame.table(_SETTINGS, "name", "Every setting is the cluster's default").classes("pairs")

    async def load() -> None:
        found = await frame.client.get(path)
        partitions.rows = [
            {
                **each,
                "leader": "none" if each["leader"] is None else each["leader"],
                "replicas": ", ".join(map(str, each["replicas"])),
                "isr": ", ".join(map(str, each["isr"])),
                "records": None if each["end"] is None else each["end"] - each["start"],
            }
            for each in found["partitions"]
        ]
        known[:] = found["settings"]
        settings.rows = [
            {**each, "own": "this topic" if each["is_own"] else "default"}
            for each in found["settings"]
            if each["is_own"] or not own_only.value
        ]
        use = await frame.client.get(f"{path}/use")
        users.rows = _users(frame, use)
        _show_figures(figures, found, use["bytes"])
        show_rate(chart, await frame.client.get(f"{path}/rate"), frame.zone)
        show_group(behind, await frame.client.get(f"{path}/lag"), frame.zone)
        going.text = _what_goes(await frame.client.get(f"{path}/retention"))

    reload: Callable[[], Any] = frame.keep_fresh(load)
    own_only.on_value_change(reload)


def _users(frame: Frame, use: dict[str, Any]) -> list[dict[str, Any]]:
    rows = [{"name": each, "what": "pipeline, writes", "path": pipeline_path(each)} for each in use["written_by"]]
    rows += [{"name": each, "what": "pipeline, reads", "path": pipeline_path(each)} for each in use["read_by"]]
    rows += [
        {"name": each["group"], "what": "group", "lag": each["lag"], "path": frame.address(group_path(each["group"]))}
        for each in use["groups"]
    ]
    return [{"lag": None, **each, "id": number} for number, each in enumerate(rows)]


def _show_figures(place: Any, found: dict[str, Any], on_disk: int | None) -> None:
    parts = found["partitions"]
    records = sum((each["end"] or 0) - (each["start"] or 0) for each in parts)
    lacking = sum(len(each["isr"]) < len(each["replicas"]) for each in parts)
    retention = next((each["value"] for each in found["settings"] if each["name"] == "retention.ms"), "")
    shown = [
        ("Records", count(records)),
        ("Partitions", count(len(parts))),
        ("Replica missing", count(lacking)),
        ("Kept for", _kept(retention)),
    ]
    shown += [("On disk", size(on_disk))] if on_disk is not None else []
    figures_in(place, shown)


def _what_goes(retention: dict[str, Any]) -> str:
    """Say what retention deletes next."""
    if not retention["deletes"]:
        return "Retention deletes nothing: the topic is compacted."
    if retention["keeps_ms"] is None and retention["keeps_bytes"] is None:
        return "Retention deletes nothing: records are kept for ever."
    if retention["keeps_ms"] is None:
        return f"Retention deletes the oldest records of a partition beyond {size(retention['keeps_bytes'])}."
    due, later = plural(retention["due"], "record"), retention["due_within_day"]
    also = f", or beyond {size(retention['keeps_bytes'])} a partition" if retention["keeps_bytes"] is not None else ""
    if not retention["due"]:
        return f"Retention deletes nothing yet, and {plural(later, 'record')} within a day{also}."
    return f"Retention deletes {due} next, and {count(later)} more within a day{also}."


def _kept(retention_ms: str) -> str:
    if not retention_ms.lstrip("-").isdigit():
        return "—"
    hours = int(retention_ms) / 3_600_000
    if hours < 0:
        return "ever"
    return f"{hours / 24:g} d" if hours >= 48 else f"{hours:.3g} h"  # noqa: PLR2004 - two days


def _grow(frame: Frame, topic: str, reload: Callable[[], Any]) -> None:
    action_id = secrets.token_hex(16)
    text = "Keys map to other partitions from then on, and no partition can be taken away again."
    dialog, card = ask("Add partitions", text)
    with card:
        total = ui.number("Partitions in all", min=1, max=10_000, precision=0).props("outlined dense autofocus")

        async def do() -> None:
            body = {"total": int(total.value or 0)}
            path = f"{topic_path(topic)}/partitions"
            done = f"Topic '{topic}' has {body['total']} partitions"
            if await frame.act(lambda: frame.client.act("POST", path, body, action_id=action_id), done) is not None:
                dialog.close()
                await reload()

        ends(dialog, "Add", do)


def _alter(frame: Frame, topic: str, reload: Callable[[], Any]) -> None:
    action_id = secrets.token_hex(16)
    dialog, card = ask("Retention", "A shorter retention deletes records, which cannot be undone.")
    with card:
        retention = ui.input("Kept for", placeholder="7d, 12h, forever").props("outlined dense autofocus")
        typed = ui.input(f"Type {topic} to confirm").props("outlined dense autocomplete=off")

        async def do() -> None:
            body = {"retention": retention.value or None, "confirm": typed.value}
            path, done = topic_path(topic), f"Topic '{topic}' changed"
            if await frame.act(lambda: frame.client.act("PATCH", path, body, action_id=action_id), done) is not None:
                dialog.close()
                await reload()

        ends(dialog, "Change", do, deletes=True)


def _set(frame: Frame, topic: str, known: list[dict[str, Any]], reload: Callable[[], Any]) -> None:
    """Ask for one setting and its value; left empty, the cluster decides again."""
    action_id = secrets.token_hex(16)
    values = {each["name"]: each["value"] for each in known}
    dialog, card = ask(
        "Another setting", "Some settings delete records, such as cleanup.policy, which cannot be undone."
    )
    with card:
        name = ui.select(list(values), with_input=True).props('outlined dense label="Setting"')
        value = ui.input("Value", placeholder="left empty: the cluster's default").props("outlined dense stack-label")
        name.on_value_change(lambda event: value.set_value(values.get(event.value, "")))
        typed = ui.input(f"Type {topic} to confirm").props("outlined dense autocomplete=off")

        async def do() -> None:
            given = (value.value or "").strip()
            wanted = {"config": {name.value: given}} if given else {"unset": [name.value]}
            body = {**(wanted if name.value else {}), "confirm": typed.value}
            path, done = topic_path(topic), f"Topic '{topic}' changed"
            if await frame.act(lambda: frame.client.act("PATCH", path, body, action_id=action_id), done) is not None:
                dialog.close()
                await reload()

        ends(dialog, "Change", do, deletes=True)


def _purge(frame: Frame, topic: str, reload: Callable[[], Any]) -> None:
    """Ask which records, count them, then have the name typed."""
    action_id, path = secrets.token_hex(16), f"{topic_path(topic)}/purge"
    dialog, card = ask("Purge records", _FOR_GOOD)
    with card:
        partition = ui.number("Partition", placeholder="all", min=0, precision=0)
        before = ui.number("Only before offset", placeholder="all of them", min=0, precision=0)
        for each in (partition, before):
            each.props("outlined dense stack-label clearable debounce=300")
        before.bind_visibility_from(partition, "value", lambda value: value is not None)
        counted = ui.label(_COUNTING).classes("number")
        typed = ui.input(f"Type {topic} to confirm").props("outlined dense autocomplete=off")

        async def send(confirm: str | None, action_id: str = "") -> Any:
            part = _whole(partition.value)
            body = {"partition": part, "before": None if part is None else _whole(before.value), "confirm": confirm}
            return await frame.client.act("POST", path, body, action_id=action_id)

        async def count_first() -> None:
            counted.text = _counted(await frame.act(lambda: send(None), ""))

        async def do() -> None:
            if await frame.act(lambda: send(typed.value or "-", action_id), "Purge records: done") is not None:
                dialog.close()
                await reload()

        ends(dialog, "Purge", do, deletes=True)
        for each in (partition, before):
            each.on_value_change(count_first)
        ui.timer(0, count_first, once=True)


def _delete(frame: Frame, topic: str) -> None:
    """Count first, then have the name typed."""
    action_id, path = secrets.token_hex(16), topic_path(topic)
    dialog, card = ask("Delete topic", _FOR_GOOD)
    with card:
        counted = ui.label(_COUNTING).classes("number")
        typed = ui.input(f"Type {topic} to confirm").props("outlined dense autofocus autocomplete=off")

        async def count_first() -> None:
            counted.text = _counted(await frame.act(lambda: frame.client.act("DELETE", path), ""))

        async def do() -> None:
            confirm, done = typed.value or "-", "Delete topic: done"
            sent = lambda: frame.client.act("DELETE", path, action_id=action_id, confirm=confirm)  # noqa: E731 - asked once
            if await frame.act(sent, done) is not None:
                dialog.close()
                ui.navigate.to(frame.address("/topics"))

        ends(dialog, "Delete", do, deletes=True)
        ui.timer(0, count_first, once=True)


def _counted(found: dict[str, Any] | None) -> str:
    return f"{plural(found['records'], 'record')} at most" if found else "They could not be counted"


def _whole(number: float | None) -> int | None:
    return None if number is None else int(number)
