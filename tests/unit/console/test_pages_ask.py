"""Pages do nothing by themselves: what one shows or does is a request of the REST interface, so programs can, too."""

import ast
from pathlib import Path

import penstock.console.pages

PAGES = sorted(Path(next(iter(penstock.console.pages.__path__))).glob("*.py"))
OWN = "penstock.console.pages"
# The sign-in, which is a form; constants and words.
ALSO = {"penstock.console.api.sign_in", "penstock.console.asking", "penstock.console.errors", "penstock.console.users"}
ALSO |= {
    "penstock.clock",
    "penstock.wording",
    "penstock.kafka.acls",
    "penstock.lineage.keys",
    "penstock.schemas.formats",
}


def imported(page: Path) -> set[str]:
    nodes = ast.walk(ast.parse(page.read_text()))
    return {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}


def test_pages_import_nothing_that_reaches_the_system_beside_the_rest_interface() -> None:
    ours = {(each.name, name) for each in PAGES for name in imported(each) if name.startswith("penstock.")}

    assert {"client.py", "frame.py", "site.py"} <= {each.name for each in PAGES}
    assert [] == sorted((page, name) for page, name in ours if not name.startswith(OWN) and name not in ALSO)
