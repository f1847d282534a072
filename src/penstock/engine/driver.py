"""A driver process: Spark, the runner, signals."""

from pathlib import Path

from penstock.broker import jars
from penstock.engine import session
from penstock.engine.runner import Home, Runner, Tell
from penstock.pipeline.spec import PipelineSpec
from penstock.settings import Settings


def run(spec: PipelineSpec, settings: Settings, base: Path, *, tell: Tell, master: str = "local[*,4]") -> None:
    """Run a pipeline in this process."""
    home = Home(settings.home / "pipelines" / spec.name)
    spark = session.start(spec.name, home.logs, master=master)
    with Runner(spec, settings.connection(), home, spark, base) as runner:
        runner.run(tell)
