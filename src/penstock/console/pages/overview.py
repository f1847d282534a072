"""The overview: what needs attention first."""

from typing import Any
from urllib.parse import urlencode

from nicegui import ui

from penstock.console.pages.cells import NUMBER, STATE
from penstock.console.pages.charts import rate_chart, show_rate
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.paths import connector_path, pipeline_path, topic_path
from penstock.console.pages.pipelines import pipeline_row, pipeline_table
from penstock.console.pages.wording import count, rate

_LOOKS = {"running": "good", "starting": "warn", "restarting": "warn", "unsupervised": "warn", "stopped": ""}
_SERVICES = [
    {"name": "service", "label": "Service", "field": "service", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "address", "label": "Address", "field": "address", "align": "left", "classes": "mono"},
    {"name": "restarts", "label": "Restarts", "field": "restarts", "align": "right", ":format": NUMBER},
    {"name": "reason", "label": "Last ended", "field": "reason", "align": "left", "classes": "words"},
]


async def draw(frame: Frame) -> None:
    """Draw the page."""
    frame.draw_bar("Overview")
    with frame.main():
        heading("Overview", 1)
        concerns = ui.element("section").classes("part").props('aria-label="What needs attention"')
        figures = ui.element("section").classes("figures").props('aria-label="Cluster"')
        with ui.element("section").classes("part"):
            heading("Records written a second", 2)
            chart = rate_chart()
        with ui.element("section").classes("part"):
            heading("Pipelines", 2)
            table = pipeline_table(frame)
        with ui.element("section").classes("part"):
            heading("Services", 2)
            services = frame.table(_SERVICES, "service", "None was started here. Name them in penstock.yaml")
            services.add_slot("body-cell-state", STATE)

    async def load() -> None:
        found = await frame.client.get("/overview")
        _show_concerns(concerns, found["concerns"])
        _show_figures(figures, found)
        show_rate(chart, found["rate"], frame.zone)
        table.rows = [pipeline_row(each, frame.zone) for each in found["pipelines"]]
        services.rows = [{**each, "look": _LOOKS.get(each["state"], "bad")} for each in found["services"]]

    frame.keep_fresh(load)


def _show_concerns(place: Any, concerns: list[dict[str, str]]) -> None:
    place.clear()
    with place:
        if not concerns:
            ui.label("Nothing needs attention.").classes("state good")
        for each in concerns:
            with ui.element("div").classes(f"concern {each['level']}"):
                ui.label(each["level"].capitalize()).classes("mark")
                with ui.element("div").classes("words"):
                    what, path = f"{each['what'][:1].upper()}{each['what'][1:]}", _path(each["about"])
                    ui.link(what, path) if path else ui.label(what)
                    if each["fix"]:
                        ui.label(each["fix"]).classes("soft small")


def _path(about: str) -> str:
    """Return the page of what a concern is about; none for a service, which the overview itself shows."""
    kind, _, name = about.partition(":")
    if kind == "dead-letters":
        return f"/dead-letters?{urlencode({'pipeline': name})}"
    paths = {"pipeline": pipeline_path(name), "topic": topic_path(name), "connector": connector_path(name)}
    return {"cluster": "/nodes", **paths}.get(kind, "")


def _show_figures(place: Any, found: dict[str, Any]) -> None:
    cluster = found["cluster"]
    if cluster is None:
        place.clear()
        return
    shown = [
        ("Nodes up", count(len(cluster["nodes"]))),
        ("Topics", count(cluster["topics"])),
        ("Partitions", count(cluster["partitions"])),
        ("Without a leader", count(len(cluster["offline"]))),
        ("Replica missing", count(len(cluster["under_replicated"]))),
        ("Written", rate(found["records_per_s"])),
        ("Landed", rate(found["landed_per_s"])),
    ]
    figures_in(place, shown)
