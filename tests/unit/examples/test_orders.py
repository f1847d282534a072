"""The example of a pipeline with handlers has tests of its own; they run as its reader runs them, and in seconds."""

import re
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "orders"
MOST_S = 10


def spent_s() -> float:
    """Tell the processor's seconds of children that have ended: the clock would also count what else runs here."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def test_the_tests_of_the_orders_pass_in_under_ten_seconds_of_a_processor() -> None:
    before_s = spent_s()

    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(EXAMPLE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert 0 == said.returncode, said.stdout + said.stderr
    assert spent_s() - before_s < MOST_S


def test_the_tutorial_shows_the_code_of_the_orders_as_it_is() -> None:
    tutorial = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").partition("\n## Reference\n")[0]
    shown = re.findall(r"^```python\n(.*?)^```$", tutorial, flags=re.DOTALL | re.MULTILINE)
    code = "".join((EXAMPLE / name).read_text(encoding="utf-8") for name in ("orders.py", "test_orders.py"))

    assert shown
    assert [] == [each for each in shown if each not in code]
