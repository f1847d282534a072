"""Groups: the list with its lag, a page at a time; one group, and moving it with the plan shown first."""

import secrets
from collections.abc import Callable
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER, STATE, TIME
from penstock.console.pages.charts import group_chart, show_group
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.paging import Paging
from penstock.console.pages.paths import group_path, topic_path
from penstock.console.pages.wording import count, exactly, in_zone, moment

_SIZE = 50
_LOOKS = {"stable": "good", "preparing_rebalancing": "warn", "completing_rebalancing": "warn", "dead": "bad"}
_GROUPS = [
    {"name": "group", "label": "Group", "field": "group", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "lag", "label": "Lag", "field": "lag", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "type", "label": "Protocol", "field": "type", "align": "left"},
]
_PARTITIONS = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left", "sortable": True},
    {"name": "partition", "label": "Partition", "field": "partition", "align": "right", "sortable": True},
    {"name": "committed", "label": "Position", "field": "committed", "align": "right", ":format": NUMBER},
    {"name": "end", "label": "End", "field": "end", "align": "right", ":format": NUMBER},
    {"name": "lag", "label": "Lag", "field": "lag", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "member", "label": "Read by", "field": "member", "align": "left"},
]
_MEMBERS = [
    {"name": "client_id", "label": "Client", "field": "client_id", "align": "left", "sortable": True},
    {"name": "host", "label": "Host", "field": "host", "align": "left"},
    {"name": "partitions", "label": "Partitions", "field": "partitions", "align": "left"},
]
_CHANGES = [
    {"name": "at", "label": "Seen", "field": "at", "align": "left"},
    {"name": "what", "label": "What has changed", "field": "what", "align": "left", "classes": "words"},
]
_ASKED = {"to": "To", "by": "Records", "like": "Group"}
_HINTS = {
    "to": "earliest, latest, an offset (42), a time (2026-01-31T12:00) or how long ago (15m)",
    "by": "forward, or back with a minus: -100",
    "like": "to the positions of this other group",
}
_STEPS = [
    {"name": "topic", "label": "Topic", "field": "topic", "align": "left"},
    {"name": "partition", "label": "Partition", "field": "partition", "align": "right"},
    {"name": "current", "label": "From", "field": "current", "align": "right", ":format": NUMBER},
    {"name": "target", "label": "To", "field": "target", "align": "right", ":format": NUMBER},
    {"name": "effect", "label": "Effect", "field": "effect", "align": "left"},
    {"name": "records", "label": "Records", "field": "records", "align": "right", ":format": NUMBER},
]


async def draw_list(frame: Frame) -> None:
    """Draw the list."""
    frame.draw_bar("Groups")
    paging = Paging(_SIZE, frame.query.get("page", ""), frame.query.get("search", ""))
    with frame.main():
        with ui.element("div").classes("head"):
            heading("Groups", 1)
            paging.draw_search("groups")
        table = frame.table(_GROUPS, "group", "No groups here", rows_per_page=0)
        table.props("hide-pagination")
        table.add_slot("body-cell-group", LINK)
        table.add_slot("body-cell-state", STATE)
        paging.draw_turning()

    async def load() -> None:
        asked = paging.asked
        frame.keep_address("/groups", search=asked["search"], page=asked["page"])
        found = await frame.client.get("/groups", **asked)
        table.rows = [
            {
                **each,
                "path": frame.address(group_path(each["group"])),
                "look": _LOOKS.get(each["state"], ""),
                "state": each["state"].replace("_", " "),
            }
            for each in found["groups"]
        ]
        paging.show(len(found["groups"]), found["total"])

    paging.follow(frame.keep_fresh(load))


async def draw(frame: Frame, group: str) -> None:
    """Draw one group."""
    frame.draw_bar("Groups")
    with frame.main():
        with ui.element("div").classes("head"):
            heading(group, 1)
            with ui.element("div").classes("tools"):
                if frame.may("operator"):
                    move = ui.button("Move", on_click=lambda: _move(frame, group, reload))
                    move.props("outline color=primary no-caps")
                if frame.may("admin"):
                    ui.button("Delete", on_click=lambda: _delete(frame, group)).props("flat color=negative no-caps")
        figures = ui.element("section").classes("figures")
        with ui.element("section").classes("part"):
            heading("Lag", 2)
            chart = group_chart()
        with ui.element("section").classes("part"):
            heading("Partitions", 2)
            partitions = frame.table(_PARTITIONS, "id", "No positions yet")
            partitions.add_slot("body-cell-topic", LINK)
        with ui.element("section").classes("part"):
            heading("Members", 2)
            members = frame.table(_MEMBERS, "member_id", "Nobody is in it now")
        with ui.element("section").classes("part"):
            heading("Rebalances", 2)
            changes = frame.table(_CHANGES, "id", "None since this page was first opened", rows_per_page=10)
            changes.add_slot("body-cell-at", TIME)

    async def load() -> None:
        found = await frame.client.get(group_path(group))
        partitions.rows = [
            {
                **each,
                "id": f"{each['topic']}/{each['partition']}",
                "path": frame.address(topic_path(each["topic"])),
            }
            for each in found["partitions"]
        ]
        members.rows = [{**each, "partitions": ", ".join(each["partitions"])} for each in found["members"]]
        shown = [
            ("Lag", count(found["lag"])),
            ("State", found["state"].replace("_", " ")),
            ("Members", count(len(found["members"]))),
        ]
        figures_in(figures, shown)
        past = await frame.client.get(f"{group_path(group)}/history")
        show_group(chart, past["points"], frame.zone)
        changes.rows = [
            {"id": number, "at": moment(each["at"], frame.zone), "exactly": exactly(each["at"]), "what": each["what"]}
            for number, each in reversed(list(enumerate(past["changes"])))
        ]

    reload: Callable[[], Any] = frame.keep_fresh(load)


def _move(frame: Frame, group: str, reload: Callable[[], Any]) -> None:
    """Ask where to, show what that does, then do it."""
    action_id = secrets.token_hex(16)
    dialog = ui.dialog(value=True)
    dialog.on("hide", dialog.delete)
    with dialog, ui.card():
        heading("Move the group", 2)
        ui.label("Kafka moves only groups without members. The plan comes first.").classes("soft")
        how = ui.toggle({"to": "To a position", "by": "By so many", "like": "Like a group"}, value="to")
        how.props("dense no-caps unelevated toggle-color=primary")
        to = ui.input("To").props("outlined dense autofocus")
        to.bind_label_from(how, "value", _ASKED.__getitem__)
        hint = ui.label().classes("soft small")
        hint.bind_text_from(how, "value", _HINTS.__getitem__)
        topic = ui.input("Topic", placeholder="all of the group's").props("outlined dense stack-label")
        partition = ui.number("Partition", placeholder="all", min=0, precision=0).props("outlined dense stack-label")
        plan = ui.table(columns=_STEPS, rows=[], pagination=10).props("flat dense")
        plan.set_visibility(False)
        planned: dict[str, Any] = {}  # what the plan is of, and so what is done

        def forget() -> None:
            plan.set_visibility(False)
            do.set_visibility(False)

        for each in (how, to, topic, partition):
            each.on_value_change(forget)

        async def show() -> None:
            path, part = f"{group_path(group)}/reset", partition.value
            body: dict[str, Any] = {how.value: in_zone(to.value or "", frame.zone)}
            body["topics"] = [topic.value.strip()] if topic.value else []
            body["partition"] = None if part is None else int(part)
            found = await frame.act(lambda: frame.client.act("POST", path, body), "")
            if found is not None:
                planned.clear()
                planned.update(body)
                plan.rows = found["steps"]
                plan.set_visibility(True)
                do.set_visibility(True)

        async def carry_out() -> None:
            path, done, body = f"{group_path(group)}/reset", f"Group '{group}' moved", {**planned, "confirm": group}
            moved = await frame.act(lambda: frame.client.act("POST", path, body, action_id=action_id), done)
            if moved is not None:
                dialog.close()
                await reload()

        with ui.element("div").classes("ends"):
            ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
            ui.button("Show the plan", on_click=show).props("outline color=primary no-caps")
            do = ui.button("Move", on_click=carry_out).props("unelevated color=primary no-caps")
            do.set_visibility(False)


def _delete(frame: Frame, group: str) -> None:
    action_id = secrets.token_hex(16)
    dialog = ui.dialog(value=True)
    dialog.on("hide", dialog.delete)
    with dialog, ui.card():
        heading("Delete the group", 2)
        ui.label("Its positions are forgotten. It cannot be undone.").classes("soft")
        typed = ui.input(f"Type {group} to confirm").props("outlined dense autofocus autocomplete=off")

        async def do() -> None:
            path, done = group_path(group), f"Group '{group}' deleted"
            deleted = await frame.act(
                lambda: frame.client.act("DELETE", path, action_id=action_id, confirm=typed.value or "-"), done
            )
            if deleted is not None:
                ui.navigate.to(frame.address("/groups"))

        with ui.element("div").classes("ends"):
            ui.button("Cancel", on_click=dialog.close).props("flat color=grey no-caps")
            ui.button("Delete", on_click=do).props("unelevated color=negative no-caps")
