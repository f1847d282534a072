"""The lab: what was started and how it ended, scenarios and drills to start, games in the background."""

import secrets
from typing import Any

from nicegui import ui

from penstock.console.pages.cells import LINK, NUMBER, STATE, TIME
from penstock.console.pages.dialogs import ask, ends
from penstock.console.pages.frame import Frame, figures_in, heading
from penstock.console.pages.lab_words import LOOKS, WORDS, chosen, podium_rows
from penstock.console.pages.paths import run_path
from penstock.console.pages.wording import count, exactly, moment

_RUNS = [
    {"name": "name", "label": "Run", "field": "name", "align": "left"},
    {"name": "state", "label": "State", "field": "state", "align": "left"},
    {"name": "started", "label": "Started", "field": "started", "align": "left"},
    {"name": "took", "label": "Took", "field": "took", "align": "right"},
    {"name": "options", "label": "With", "field": "options", "align": "left"},
]
_OFFERS = [
    {"name": "name", "label": "Name", "field": "name", "align": "left", "sortable": True},
    {"name": "action", "label": "", "field": "action", "align": "left"},
    {"name": "kind", "label": "Kind", "field": "kind", "align": "left", "sortable": True},
    {"name": "about", "label": "What happens", "field": "about", "align": "left", "classes": "words"},
]
_PODIUM = [
    {"name": "game", "label": "Game", "field": "game", "align": "left"},
    {"name": "user", "label": "Player", "field": "user", "align": "left"},
    {"name": "true_rank", "label": "Rank, truth", "field": "true_rank", "align": "right"},
    {"name": "rank", "label": "Rank, podium", "field": "rank", "align": "right", ":format": NUMBER},
    {"name": "true_damage", "label": "Damage, truth", "field": "true_damage", "align": "right", ":format": NUMBER},
    {"name": "damage", "label": "Damage, podium", "field": "damage", "align": "right", ":format": NUMBER},
    {"name": "state", "label": "Compared", "field": "state", "align": "left"},
]
_START = """
<q-td :props="props"><button class="open" :aria-label="'Start ' + props.row.name"
  @click="() => $parent.$emit('start', props.row)">Start</button></q-td>
"""
_NO_GAMES = "No game has ended yet: start the games"
_SINKS = {"": "Delta alone", "json": "JSON", "kafka": "Kafka", "postgres": "PostgreSQL"}
_STORES = {"": "SQLite", "postgres": "PostgreSQL"}
_NUMBERS = {"players": ("Players", 2), "games": ("Games", 1), "workers": ("Workers", 1), "events": ("Events", 200)}
_HINTS = {"workers": "1 to 4", "seed": "1"}


async def draw(frame: Frame) -> None:
    """Draw the page."""
    page = _Lab(frame)
    frame.draw_bar("Lab")
    with frame.main():
        page.draw()
    page.reload = frame.keep_fresh(page.load)


class _Lab:
    """The parts of the open page, and what they do."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.reload: Any = None

    def draw(self) -> None:
        """Draw runs, what can be started, and the games."""
        frame = self.frame
        heading("Lab", 1)
        with ui.element("section").classes("part"):
            heading("Runs", 2)
            self.runs = frame.table(_RUNS, "run_id", "Nothing was started yet: choose below", rows_per_page=5)
            self.runs.add_slot("body-cell-name", LINK)
            self.runs.add_slot("body-cell-state", STATE)
            self.runs.add_slot("body-cell-started", TIME)
        with ui.element("section").classes("part"):
            heading("Scenarios and drills", 2)
            text = (
                "Each runs on a Kafka of its own, which is gone afterwards. One at a time; the project is not touched."
            )
            ui.label(text).classes("soft")
            self.offers = frame.table(_OFFERS, "id", "There are none")
            if frame.may("operator"):
                self.offers.add_slot("body-cell-action", _START)
                self.offers.on("start", lambda event: self.ask(event.args))
        with ui.element("section").classes("part"):
            with ui.element("div").classes("head"):
                heading("Games in the background", 2)
                if frame.may("operator"):
                    with ui.element("div").classes("tools"):
                        self.stop = ui.button("Stop the games", on_click=self.end).props("flat color=negative no-caps")
                        self.scale = ui.button("Start the games", on_click=self.ask_scale)
                        self.scale.props("outline color=primary no-caps")
                        self.stop.set_visibility(False)
                        self.scale.set_visibility(False)
            self.reason = ui.element("div")
            self.figures = ui.element("section").classes("figures")
        with ui.element("section").classes("part"):
            heading("Their podium beside the truth", 2)
            self.table = ui.label().classes("soft")
            self.podium = frame.table(_PODIUM, "id", _NO_GAMES, rows_per_page=12)
            self.podium.add_slot("body-cell-state", STATE)

    async def load(self) -> None:
        """Ask for everything; what can be started does not change."""
        client = self.frame.client
        self.runs.rows = [self._run(each) for each in await client.get("/lab/runs")]
        self._show_games(await client.get("/lab/simulator"))
        found = await client.get("/lab/podium")
        self.podium.rows = podium_rows(found["rows"])
        landed = f"Compared with the table {found['table']}."
        self.table.text = landed if found["table"] else "No pipeline has landed a podium yet: start game-podium."
        if not self.offers.rows:
            self.offers.rows = [
                {**each, "id": f"{each['kind']} {each['name']}"} for each in await client.get("/lab/catalog")
            ]

    def _run(self, run: dict[str, Any]) -> dict[str, Any]:
        return {
            "run_id": run["run_id"],
            "name": run["name"],
            "path": run_path(run["run_id"]),
            "state": WORDS[run["state"]],
            "look": LOOKS[run["state"]],
            "started": moment(run["started"], self.frame.zone),
            "exactly": exactly(run["started"]),
            "took": f"{run['ended'] - run['started']:,.0f} s" if run["ended"] else "—",
            "options": chosen(run["options"]),
        }

    def _show_games(self, found: dict[str, Any]) -> None:
        self.games = found
        crowd = found["crowd"] or found["usual"]
        shown = [
            ("State", found["state"]),
            ("Players", count(crowd["players"])),
            ("A bot thinks", f"{crowd['think_s']:g} s"),
            ("Game servers", count(crowd["servers"])),
            ("Started again", count(found["restarts"])),
        ]
        figures_in(self.figures, shown)
        self.reason.clear()
        if found["reason"] and found["state"] != "stopped":
            with self.reason, ui.element("div").classes("concern warning"):
                ui.label(found["state"].capitalize()).classes("mark")
                ui.label(found["reason"]).classes("words")
        if self.frame.may("operator"):
            is_up = found["state"] != "stopped"
            self.stop.set_visibility(is_up)
            self.scale.text = "Change the players" if is_up else "Start the games"
            self.scale.set_visibility(True)

    def ask(self, offer: dict[str, Any]) -> None:
        """Ask with what to start a scenario or drill, then start it and show it."""
        action_id = secrets.token_hex(16)  # of the dialog: a double click starts one
        dialog, card = ask(f"Start {offer['name']}", offer["about"][:1].upper() + offer["about"][1:])
        with card:
            fields = {name: _field(name) for name in offer["options"]}

            async def start() -> None:
                body = {"kind": offer["kind"], "name": offer["name"]}
                body |= {
                    name: _given(name, field.value) for name, field in fields.items() if field.value not in {None, ""}
                }
                made = await self.frame.act(
                    lambda: self.frame.client.act("POST", "/lab/runs", body, action_id=action_id), ""
                )
                if made is not None:
                    ui.navigate.to(run_path(made["run_id"]))

            ends(dialog, "Start", start)

    def ask_scale(self) -> None:
        """Ask how many play, then start the games with that."""
        found, action_id = self.games, secrets.token_hex(16)
        crowd = found["crowd"] or found["usual"]
        text = f"Bots play into the topic {found['topic']} of this project's Kafka, until they are stopped."
        dialog, card = ask(self.scale.text, text)
        with card:
            players = ui.number("Players", value=crowd["players"], min=2, max=1_000, precision=0)
            think = ui.number("Seconds that a bot thinks", value=crowd["think_s"], min=0, max=60)
            servers = ui.number("Game servers", value=crowd["servers"], min=1, max=16, precision=0)
            for field in (players, think, servers):
                field.props("outlined dense")
            servers.set_visibility(found["can_share"])

            async def do() -> None:
                body = {"players": int(players.value or 2), "think_s": float(think.value or 0)}
                body |= {"servers": int(servers.value or 1)} if found["can_share"] else {}
                path, done = "/lab/simulator", f"{body['players']} players are starting"
                made = await self.frame.act(
                    lambda: self.frame.client.act("POST", path, body, action_id=action_id), done
                )
                if made is not None:
                    dialog.close()
                    await self.reload()

            ends(dialog, "Start", do)

    async def end(self) -> None:
        """Stop the games."""
        self.stop.disable()
        action_id = secrets.token_hex(16)
        await self.frame.act(
            lambda: self.frame.client.act("POST", "/lab/simulator/stop", action_id=action_id), "The games are stopped"
        )
        self.stop.enable()
        await self.reload()


def _field(name: str) -> Any:
    """Draw the field of an option; left empty, the scenario decides."""
    if name == "sink":
        return ui.select(_SINKS, value="").props('outlined dense label="Lands in"')
    if name == "store":
        return ui.select(_STORES, value="").props('outlined dense label="Store"')
    label, least = _NUMBERS.get(name, (name.capitalize(), None))
    hint = _HINTS.get(name, "as the scenario has it")
    return ui.number(label, placeholder=hint, min=least, precision=0).props("outlined dense stack-label")


def _given(name: str, value: Any) -> Any:
    return value if name in {"sink", "store"} else int(value)
