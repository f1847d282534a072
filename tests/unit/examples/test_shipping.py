"""The example of a pipeline with handlers has tests of its own; they run as its reader runs them, without Java."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "shipping"


def test_the_tests_of_the_example_pass_without_java() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", str(EXAMPLE)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=480,
        check=False,
    )

    assert 0 == said.returncode, said.stdout + said.stderr


def test_the_tutorial_shows_the_code_of_the_example_as_it_is() -> None:
    tutorial = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8").partition("\n## Reference\n")[0]
    shown = re.findall(r"^```python\n(.*?)^```$", tutorial, flags=re.DOTALL | re.MULTILINE)
    code = "".join((EXAMPLE / name).read_text(encoding="utf-8") for name in ("shipping.py", "test_shipping.py"))

    assert shown
    assert [] == [each for each in shown if each not in code]
