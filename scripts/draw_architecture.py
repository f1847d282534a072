"""Draw the picture of all parts that README shows, for light and for dark pages: docs/images/architecture*.svg."""

from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parents[1] / "docs" / "images"
WIDTH, HEIGHT = 1200, 666
FONT = "system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif"


class Palette(NamedTuple):
    """Colours of one drawing. `fill` is of boxes, `soft` of the areas that hold them."""

    text: str
    quiet: str
    line: str
    fill: str
    soft: str
    kafka: str
    spark: str
    sink: str
    dead: str


LIGHT = Palette("#1f2328", "#59636e", "#818b98", "#ffffff", "#f6f8fa", "#0969da", "#bc4c00", "#1a7f37", "#cf222e")
DARK = Palette("#f0f6fc", "#9198a1", "#9198a1", "#151b23", "#0d1117", "#4493f8", "#f0883e", "#3fb950", "#f85149")


class Drawing:
    """One picture, piece by piece."""

    def __init__(self, palette: Palette) -> None:
        self.palette = palette
        self._parts: list[str] = []

    def box(self, x: int, y: int, width: int, height: int, *lines: str, edge: str = "", dashed: bool = False) -> None:
        """Draw a box; its first line is what it is, the others say more."""
        colour = edge or self.palette.line
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{self.palette.fill}"'
            f' stroke="{colour}" stroke-width="1.5"{dash}/>'
        )
        top = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            self.text(x + width / 2, top + 18 * number, line, quiet=number > 0)

    def area(self, x: int, y: int, width: int, height: int, title: str, colour: str, note: str = "") -> None:
        """Draw what holds boxes, with its name at the top."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="{self.palette.soft}"'
            f' stroke="{colour}" stroke-width="1.5"/>'
        )
        self.text(x + 16, y + 26, title, anchor="start", colour=colour, bold=True)
        if note:
            self.text(x + width - 16, y + 26, note, anchor="end", quiet=True)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "middle",
        quiet: bool = False,
        bold: bool = False,
        colour: str = "",
    ) -> None:
        """Write one line."""
        fill = colour or (self.palette.quiet if quiet else self.palette.text)
        size, weight = (13 if quiet else 15), ("600" if bold else "400")
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}"'
            f' fill="{fill}">{escape(words)}</text>'
        )

    def arrow(self, *points: tuple[int, int], colour: str = "", dashed: bool = False) -> None:
        """Draw a line through points, with a head at its end."""
        stroke = colour or self.palette.line
        path = " ".join(f"{'L' if number else 'M'}{x},{y}" for number, (x, y) in enumerate(points))
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        (before_x, before_y), (x, y) = points[-2:]
        step_x, step_y = (x > before_x) - (x < before_x), (y > before_y) - (y < before_y)
        left = (x - 9 * step_x - 5 * step_y, y - 9 * step_y + 5 * step_x)
        right = (x - 9 * step_x + 5 * step_y, y - 9 * step_y - 5 * step_x)
        head = f"{x},{y} {left[0]},{left[1]} {right[0]},{right[1]}"
        self._parts.append(f'<path d="{path}" fill="none" stroke="{stroke}" stroke-width="1.75"{dash}/>')
        self._parts.append(f'<polygon points="{head}" fill="{stroke}"/>')

    def svg(self) -> str:
        """Return the whole file."""
        return "\n".join(
            [
                (
                    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
                    f' height="{HEIGHT}" font-family="{FONT}" role="img">'
                ),
                (
                    "<title>Penstock: producers, Kafka, a pipeline on Spark, sinks, dead letters, and the tools around"
                    " them</title>"
                ),
                *self._parts,
                "</svg>\n",
            ]
        )


def draw(palette: Palette) -> str:
    """Draw everything, from the left to the right as an event goes."""
    picture = Drawing(palette)
    _kafka(picture)
    _pipeline(picture)
    _sinks(picture)
    _tools(picture)
    return picture.svg()


def _kafka(picture: Drawing) -> None:
    colours = picture.palette
    picture.text(90, 40, "Producers", bold=True)
    for number, words in enumerate(["Producer, in Python", "logging.log_to", "penstock produce", "any Kafka client"]):
        picture.box(8, 58 + 50 * number, 178, 40, words)
        picture.arrow((186, 78 + 50 * number), (232, 78 + 50 * number))
    picture.area(232, 14, 206, 250, "Kafka", colours.kafka)
    picture.box(248, 54, 174, 62, "penstock up", "1 to n local nodes", edge=colours.kafka)
    picture.text(335, 136, "or", quiet=True)
    picture.box(248, 146, 174, 62, "--bootstrap", "any cluster", edge=colours.kafka)
    picture.text(335, 234, "TLS, users, ACLs, topics", quiet=True)
    picture.text(335, 251, "and groups by command", quiet=True)
    picture.box(8, 306, 178, 58, "Consumer, Reader", "penstock consume")
    picture.arrow((270, 264), (270, 335), (186, 335))
    picture.arrow((438, 100), (486, 100), colour=colours.kafka)


def _pipeline(picture: Drawing) -> None:
    colours = picture.palette
    picture.area(486, 14, 430, 350, "A pipeline: one file, YAML or Python", colours.spark)
    picture.box(502, 54, 398, 62, "driver: a loop of Spark jobs, one a batch", "plan offsets → run the job → commit")
    picture.text(518, 144, "Spark tasks, one for each partition", anchor="start", quiet=True)
    for number, (words, more) in enumerate(
        [("read", "librdkafka"), ("decode", "JSON, Avro"), ("steps", "SQL, Python"), ("expect", "rules")]
    ):
        left = 502 + 101 * number
        picture.box(left, 156, 94, 56, words, more, edge=colours.spark)
        if number:
            picture.arrow((left - 7, 184), (left, 184), colour=colours.spark)
    picture.arrow((853, 212), (853, 246), colour=colours.spark)
    picture.box(722, 246, 178, 56, "stage", "out of readers' sight", edge=colours.spark)
    picture.box(502, 246, 206, 56, "checkpoint", "planned, committed, gaps")
    picture.text(502, 332, "--master local[*,4], or your Spark cluster", anchor="start", quiet=True)
    picture.text(502, 350, "stateful, real time: Spark's streaming", anchor="start", quiet=True)


def _sinks(picture: Drawing) -> None:
    colours = picture.palette
    picture.area(966, 14, 226, 350, "Sinks", colours.sink)
    picture.text(1079, 66, "rows and position, one commit", quiet=True)
    kinds = ["Delta Lake table", "Iceberg table", "PostgreSQL table", "JSON files", "Kafka topic"]
    for number, words in enumerate(kinds):
        picture.box(982, 78 + 40 * number, 194, 34, words, edge=colours.sink)
    picture.text(1079, 292, "at least once", quiet=True)
    picture.box(982, 302, 194, 46, "console, Spark formats", dashed=True)
    picture.arrow((916, 184), (966, 184), colour=colours.sink)
    picture.arrow((860, 302), (860, 415), (640, 415), colour=colours.dead)
    picture.box(400, 386, 240, 58, "dead-letter topic", "what failed, whole, and why", edge=colours.dead)
    picture.arrow((520, 386), (520, 364), colour=colours.dead, dashed=True)
    picture.text(536, 381, "penstock dead list, show, replay, discard", anchor="start", quiet=True)


def _tools(picture: Drawing) -> None:
    picture.text(8, 490, "Around it", anchor="start", bold=True)
    tools = [
        ("pipeline check, start", "status, logs, replay, rebuild"),
        ("lag as a consumer group", "Prometheus metrics"),
        ("table show, history", "and compact"),
        ("penstock.testing", "a pipeline over a list, no broker"),
        ("sim, scenario, drill, bench", "the lab: games, faults, figures"),
        ("penstock up", "all parts, from one file"),
        ("penstock console", "all of it in a browser"),
        ("schema registry", "Avro, Protobuf, JSON Schema"),
        ("Kafka Connect, cdc", "a database, change by change"),
        ("lineage", "from a row back to its record"),
    ]
    for number, (words, more) in enumerate(tools):
        row, column = divmod(number, 5)
        picture.box(8 + 239 * column, 506 + 76 * row, 228, 66, words, more)


if __name__ == "__main__":
    IMAGES.mkdir(parents=True, exist_ok=True)
    (IMAGES / "architecture.svg").write_text(draw(LIGHT), encoding="utf-8")
    (IMAGES / "architecture-dark.svg").write_text(draw(DARK), encoding="utf-8")
