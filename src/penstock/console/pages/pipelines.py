"""Pipelines: the list; one with its batches, sinks, expectations, file, runs, gaps and log; start, stop, replay."""

import datetime
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER, STATE, TIME, TIMES
from penstock.console.pages.charts import batch_chart, show_batches
from penstock.console.pages.check_result import draw_findings
from penstock.console.pages.dialogs import ask
from penstock.console.pages.frame import Frame, figures_in, heading, log_panel
from penstock.console.pages.pipeline_definition import DefinitionPart
from penstock.console.pages.pipeline_replay import ReplayDialog
from penstock.console.pages.wording import count, exactly, moment, moment_of_text, rate, share

LOOKS = {
    "running": "good",
    "finished": "good",
    "starting": "warn",
    "waiting": "warn",
    "failed": "bad",
    "crashed": "bad",
}
COLUMNS = [
    {"name": "pipeline", "label": "Pipeline", "field": "pipeline", "align": "left", "sortable": True},
    {"name": "state", "label": "State", "field": "state", "align": "left", "sortable": True},
    {"name": "lag", "label": "Lag", "field": "lag", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "landed", "label": "Landed", "field": "landed", "align": "right"},
    {"name": "dead", "label": "Dead letters", "field": "dead", "align": "right", "sortable": True, ":format": NUMBER},
    {"name": "updated", "label": "Last heard of", "field": "updated", "align": "left"},
]
_SINKS = [
    {"name": "sink", "label": "Sink", "field": "sink", "align": "left"},
    *(
        {"name": name, "label": name.capitalize(), "field": name, "align": "right", ":format": NUMBER}
        for name in ("read", "written", "dead", "dropped")
    ),
]
_EXPECTATIONS = [
    {"name": "name", "label": "Expectation", "field": "name", "align": "left"},
    {"name": "that", "label": "Condition", "field": "that", "align": "left", "classes": "mono"},
    {"name": "otherwise", "label": "Otherwise", "field": "otherwise", "align": "left"},
    {"name": "broken", "label": "Not met", "field": "broken", "align": "right", ":format": NUMBER},
    {"name": "pass_rate", "label": "Met", "field": "pass_rate", "align": "right"},
]
_RUNS = [
    {"name": "started", "label": "Started", "field": "started", "align": "left"},
    {"name": "ended", "label": "Ended", "field": "ended", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "batches", "label": "Batches", "field": "batches", "align": "right", ":format": NUMBER},
    {"name": "events", "label": "Events", "field": "events", "align": "right", ":format": NUMBER},
    {"name": "dead", "label": "Dead letters", "field": "dead", "align": "right", ":format": NUMBER},
    {"name": "reason", "label": "Why", "field": "reason", "align": "left", "classes": "mono"},
]
_GAPS = [
    {"name": "at", "label": "Recorded", "field": "at", "align": "left"},
    {"name": "where", "label": "Partition", "field": "where", "align": "left"},
    {"name": "start", "label": "From", "field": "start", "align": "right"},
    {"name": "end", "label": "To", "field": "end", "align": "right"},
    {"name": "reason", "label": "Why", "field": "reason", "align": "left"},
]


def pipeline_row(status: dict[str, Any], zone: datetime.tzinfo) -> dict[str, Any]:
    """Return a pipeline's state as a row of the list."""
    return {
        **{name: status[name] for name in ("pipeline", "state", "lag", "dead")},
        "landed": rate(status["landed_per_s"]),
        "path": f"/pipelines/{status['pipeline']}",
        "look": LOOKS.get(status["state"], ""),
        "updated": moment(status["updated"] or None, zone),
        "exactly": exactly(status["updated"] or None),
    }


def pipeline_table(frame: Frame) -> Any:
    """Draw the list of pipelines, without rows yet."""
    table = frame.table(COLUMNS, "pipeline", "No pipeline has run here. Write one with: penstock pipeline new NAME")
    table.add_slot("body-cell-pipeline", LINK)
    table.add_slot("body-cell-state", STATE)
    table.add_slot("body-cell-updated", TIME)
    return table


async def draw_list(frame: Frame) -> None:
    """Draw the list."""
    frame.draw_bar("Pipelines")
    with frame.main():
        heading("Pipelines", 1)
        table = pipeline_table(frame)

    async def load() -> None:
        table.rows = [pipeline_row(each, frame.zone) for each in await frame.client.get("/pipelines")]

    frame.keep_fresh(load)


async def draw(frame: Frame, name: str) -> None:
    """Draw one pipeline."""
    page = _Pipeline(frame, name)
    frame.draw_bar("Pipelines")
    with frame.main():
        page.draw_head()
        page.draw_parts()
    page.reload = frame.keep_fresh(page.load)


class _Pipeline:
    """The parts of one open page, and what they do."""

    def __init__(self, frame: Frame, name: str) -> None:
        self.frame, self.name, self.path = frame, name, f"/pipelines/{name}"
        self.reload: Any = None

    def draw_head(self) -> None:
        """Draw the name, what can be done, and the figures."""
        with ui.element("div").classes("head"):
            heading(self.name, 1)
            if self.frame.may("operator"):
                with ui.element("div").classes("tools"):
                    self.spark = ui.link("Spark's UI", "", new_tab=True).classes("plain")
                    self.spark.set_visibility(False)
                    ui.button("Check", on_click=self.check).props("flat color=primary no-caps")
                    replay = ui.button("Replay", on_click=lambda: ReplayDialog(self.frame, self.name, self.path).open())
                    replay.props("flat color=primary no-caps")
                    self.stop = ui.button("Stop", on_click=self.end).props("outline color=primary no-caps")
                    self.start = ui.button("Start", on_click=self.begin).props("unelevated color=primary no-caps")
                    for button in (self.stop, self.start):
                        button.set_visibility(False)
        self.reason = ui.element("div")
        self.figures = ui.element("section").classes("figures")

    def draw_parts(self) -> None:
        """Draw the chart and the tables."""
        frame = self.frame
        with ui.element("section").classes("part"):
            heading("Batches", 2)
            self.chart = batch_chart()
        with ui.element("section").classes("part"):
            heading("Sinks since the start", 2)
            self.sinks = frame.table(_SINKS, "sink", "Nothing has been written yet")
        with ui.element("section").classes("part"):
            heading("Expectations, in the newest 200 batches", 2)
            self.expectations = frame.table(_EXPECTATIONS, "name", "Its file has none")
        if frame.may("operator"):
            DefinitionPart(frame, self.path).draw()
        with ui.element("section").classes("part"):
            heading("Runs", 2)
            self.runs = frame.table(_RUNS, "id", "No run is on record", rows_per_page=10)
            self.runs.add_slot("body-cell-state", STATE)
            for column in ("started", "ended"):
                self.runs.add_slot(f"body-cell-{column}", TIMES)
        with ui.element("section").classes("part"):
            heading("Gaps", 2)
            self.gaps = frame.table(_GAPS, "id", "Nothing was skipped", rows_per_page=10)
            self.gaps.add_slot("body-cell-at", TIME)
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                heading("Log", 2)
                self.of = ui.toggle({"driver": "Driver", "spark": "Spark", "steps": "Steps"}, value="driver")
                self.of.props("dense no-caps unelevated toggle-color=primary").on_value_change(self.load_log)
            self.log = log_panel()

    async def load(self) -> None:
        """Ask for everything."""
        client, zone = self.frame.client, self.frame.zone
        status = await client.get(self.path)
        self._show_state(status)
        show_batches(self.chart, (await client.get(f"{self.path}/batches", count=200))[::-1], zone)
        self.sinks.rows = [{"sink": sink, **each} for sink, each in status["sinks"].items()]
        self.expectations.rows = [
            {**each, "otherwise": each["otherwise"].replace("_", " "), "pass_rate": share(each["pass_rate"])}
            for each in await client.get(f"{self.path}/expectations")
        ]
        self.runs.rows = [
            {
                **each,
                "look": LOOKS.get(each["state"], ""),
                **{name: moment(each[name], zone) for name in ("started", "ended")},
                **{f"{name}_exactly": exactly(each[name]) for name in ("started", "ended")},
            }
            for each in await client.get(f"{self.path}/runs")
        ]
        self.gaps.rows = [
            {
                **each,
                "id": number,
                "at": moment_of_text(each["at"], zone),
                "exactly": each["at"],
                "where": f"{each['topic']}/{each['partition']}",
                "end": "not known" if each["end"] is None else each["end"],
            }
            for number, each in enumerate(await client.get(f"{self.path}/gaps"))
        ]
        await self.load_log()

    async def load_log(self) -> None:
        """Ask for the end of the log that is chosen."""
        path, of = f"{self.path}/log", self.of.value
        found = await self.frame.act(lambda: self.frame.client.get(path, of=of), "")
        self.log.text = "\n".join(found["lines"] if found else []) or "This log is empty."

    def _show_state(self, status: dict[str, Any]) -> None:
        figures_in(
            self.figures,
            [
                ("State", status["state"]),
                ("Lag", count(status["lag"])),
                ("Landed", rate(status["landed_per_s"])),
                ("Last batch took", f"{status['batch_seconds']:.1f} s"),
                ("Dead letters", count(status["dead"])),
            ],
        )
        self.reason.clear()
        if status["reason"]:
            level = "error" if LOOKS.get(status["state"]) == "bad" else "warning"
            with self.reason, ui.element("div").classes(f"concern {level}"):
                ui.label(status["state"].capitalize()).classes("mark")
                ui.label(status["reason"]).classes("words")
        if self.frame.may("operator"):
            is_up = status["state"] in {"starting", "running", "waiting"}
            self.stop.set_visibility(is_up)
            self.start.set_visibility(not is_up)
            self.spark.set_visibility(is_up and bool(status["spark_ui"]))
            self.spark.props["href"] = status["spark_ui"]

    async def begin(self) -> None:
        """Start it; a double click starts one."""
        await self._do("start", f"Pipeline '{self.name}' is starting", self.start)

    async def end(self) -> None:
        """Stop it after its batch."""
        await self._do("stop", f"Pipeline '{self.name}' stopped", self.stop)

    async def _do(self, what: str, done: str, button: Any) -> None:
        button.disable()
        path = f"{self.path}/{what}"
        action_id = self.frame.clicks.action_id(path)
        await self.frame.act(lambda: self.frame.client.act("POST", path, action_id=action_id), done)
        button.enable()
        await self.reload()

    async def check(self) -> None:
        """Look for mistakes in its file."""
        found = await self.frame.act(lambda: self.frame.client.act("POST", f"{self.path}/check"), "")
        if found is None:
            return
        dialog, card = ask("The file can run" if not found["mistakes"] else "The file cannot run", found["file"])
        with card:
            draw_findings(found)
            with ui.element("div").classes("ends"):
                ui.button("Close", on_click=dialog.close).props("flat color=primary no-caps")
