"""Who may do what, and who did what and when."""

from typing import Any

from nicegui import ui

from penstock.console.pages.cells import TIME
from penstock.console.pages.frame import Frame, heading
from penstock.console.pages.kafka_acls import AclsPart
from penstock.console.pages.kafka_quotas import QuotasPart
from penstock.console.pages.kafka_users import UsersPart
from penstock.console.pages.wording import exactly, moment

_AUDIT = [
    {"name": "time", "label": "When", "field": "time", "align": "left", "sortable": True},
    {"name": "who", "label": "Who", "field": "who", "align": "left", "sortable": True},
    {"name": "action", "label": "What", "field": "action", "align": "left", "classes": "mono"},
    {"name": "about", "label": "About", "field": "about", "align": "left", "classes": "words"},
    {"name": "outcome", "label": "Outcome", "field": "outcome", "align": "left", "classes": "words"},
    {"name": "address", "label": "From", "field": "address", "align": "left", "classes": "mono"},
]
_USERS = [
    {"name": "user", "label": "User", "field": "user", "align": "left", "sortable": True},
    {"name": "role", "label": "May", "field": "role", "align": "left"},
]


async def draw(frame: Frame) -> None:
    """Draw the page."""
    frame.draw_bar("Access")
    in_kafka, rules, quotas = UsersPart(frame), AclsPart(frame), QuotasPart(frame)
    with frame.main():
        heading("Access", 1)
        with ui.element("section").classes("part"):
            heading("Who did what", 2)
            audit = frame.table(_AUDIT, "id", "Nobody has changed anything through this console", rows_per_page=10)
            audit.add_slot("body-cell-time", TIME)
        with ui.element("div").classes("columns"):
            in_kafka.draw()
            with ui.element("section").classes("part"):
                heading("Users of the console", 2)
                users = frame.table(_USERS, "user", "Nobody signs in: everybody on this machine has the same role")
                ui.label("Changed by: penstock console user").classes("soft small")
        rules.draw()
        quotas.draw()

    async def load() -> None:
        found = await frame.client.get("/access")
        users.rows = found["users"]
        audit.rows = [_entry(number, each, frame) for number, each in enumerate(await frame.client.get("/audit"))]
        await in_kafka.load(found["users_problem"])
        await rules.load(found["rules_problem"])
        await quotas.load(found["rules_problem"])

    reload = frame.keep_fresh(load, every_s=15.0)
    in_kafka.follow(reload)
    rules.follow(reload)


def _entry(number: int, entry: dict[str, Any], frame: Frame) -> dict[str, Any]:
    return {
        **entry,
        "id": number,
        "time": moment(entry["at"], frame.zone),
        "exactly": exactly(entry["at"]),
        "who": f"{entry['who']} ({entry['role']})",
    }
