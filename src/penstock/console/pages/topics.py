"""The list of topics, and making one."""

import secrets
from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER, SIZE
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.paths import topic_path

_RATE = "v => v === null ? '—' : v.toLocaleString(undefined, {maximumFractionDigits: v < 10 ? 1 : 0}) + '/s'"
_COLUMNS = [
    {"name": "favourite", "label": "", "field": "is_favourite", "align": "left", "style": "width: 40px"},
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left", "sortable": True},
    {"name": "partitions", "label": "Partitions", "field": "partitions", "align": "right", "sortable": True},
    {"name": "records", "label": "Records", "field": "records", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "bytes", "label": "On disk", "field": "bytes", "align": "right", "sortable": True, ":format": SIZE},
    {
        "name": "rate",
        "label": "Written",
        "field": "records_per_s",
        "align": "right",
        "sortable": True,
        ":format": _RATE,
    },
    {"name": "replication", "label": "Replicas", "field": "replication", "align": "right", "sortable": True},
    {"name": "health", "label": "Health", "field": "under_replicated", "align": "left", "sortable": True},
]
_CLEANUP = {"": "The cluster's default", "delete": "Delete", "compact": "Compact", "both": "Both"}
_HEALTH = """
<q-td :props="props"><span :class="'state ' + (props.value ? 'warn' : 'good')">
{{ props.value ? props.value + ' lack a replica' : 'in sync' }}</span></q-td>
"""
_STAR = """
<q-td :props="props" auto-width><button :class="'star' + (props.value ? ' on' : '')"
  :aria-pressed="props.value ? 'true' : 'false'" :aria-label="'Favourite ' + props.row.topic"
  @click="() => $parent.$emit('favourite', props.row)">{{ props.value ? '★' : '☆' }}</button></q-td>
"""
# As Quasar sorts, but favourites stay first.
_FAVOURITES_FIRST = """
(rows, by, descending) => {
  const field = {rate: 'records_per_s', health: 'under_replicated'}[by] ?? by;
  const compared = (a, b) => a === b ? 0 : a === null ? -1 : b === null ? 1
    : typeof a === 'string' ? a.localeCompare(b) : a - b;
  return [...rows].sort((a, b) => (b.is_favourite - a.is_favourite)
    || (by ? compared(a[field], b[field]) * (descending ? -1 : 1) : 0));
}
"""


async def draw(frame: Frame) -> None:
    """Draw the page."""
    frame.draw_bar("Topics")
    with frame.main():
        with ui.element("div").classes("head"):
            heading("Topics", 1)
            with ui.element("div").classes("tools"):
                search = ui.input(placeholder="Search topics", value=frame.query.get("search", ""))
                search.props("outlined dense clearable debounce=150 type=search")
                search.on_value_change(lambda: frame.keep_address("/topics", search=search.value))
                internal = ui.checkbox("Kafka's own")
                if frame.may("operator"):
                    ui.button("New topic", on_click=lambda: _ask(frame, reload)).props(
                        "unelevated color=primary no-caps"
                    )
        table = frame.table(_COLUMNS, "topic", "No topics here")
        table.add_slot("body-cell-topic", LINK)
        table.add_slot("body-cell-health", _HEALTH)
        table.add_slot("body-cell-favourite", _STAR)
        table.props[":sort-method"] = _FAVOURITES_FIRST
        table.on("favourite", lambda event: turn(event.args))
        table.bind_filter_from(search, "value", lambda value: value or "")

    async def load() -> None:
        rows = await frame.client.get("/topics", internal=internal.value)
        rows.sort(key=lambda each: not each["is_favourite"])  # by name otherwise, as they come
        table.rows = [{**each, "path": frame.address(topic_path(each["topic"]))} for each in rows]

    async def turn(row: dict[str, Any]) -> None:
        method, path = "DELETE" if row["is_favourite"] else "PUT", f"{topic_path(row['topic'])}/favourite"
        await frame.act(lambda: frame.client.act(method, path), "")
        await reload()

    reload: Callable[[], Any] = frame.keep_fresh(load)
    internal.on_value_change(reload)


def _ask(frame: Frame, reload: Any) -> None:
    """Ask what topic to make."""
    action_id = secrets.token_hex(16)  # of the dialog: a double click makes one topic
    with ui.dialog(value=True) as dialog, ui.card():
        heading("New topic", 2)
        name = ui.input("Name").props("outlined dense autofocus")
        partitions = ui.number("Partitions", value=1, min=1, max=10_000, precision=0).props("outlined dense")
        retention = ui.input("Retention", placeholder="7d, 12h, forever").props("outlined dense")
        cleanup = ui.select(
            {"": "The cluster's default", "delete": "Delete", "compact": "Compact", "both": "Both"}, value=""
        )
        cleanup.props('outlined dense label="Cleanup"')

        async def make() -> None:
            body: dict[str, Any] = {"topic": (name.value or "").strip(), "partitions": int(partitions.value or 1)}
            body |= {"retention": retention.value} if retention.value else {}
            body |= {"cleanup": cleanup.value} if cleanup.value else {}
            made = await frame.act(
                lambda: frame.client.act("POST", "/topics", body, action_id=action_id),
                f"Topic '{body['topic']}' made",
            )
            if made is not None:
                dialog.close()
                await reload()

        name.on("keydown.enter", make)
        with ui.element("div").classes("ends"):
            ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
            ui.button("Create", on_click=make).props("unelevated color=primary no-caps")
    dialog.on("hide", dialog.delete)
