"""The documentation as a site: every link holds, every page is in the menu, and nothing comes from the web."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "scripts"))

import docs_site  # noqa: E402 - the scripts are no package

FROM_THE_WEB = re.compile(r'<(?:script|link|img|source)[^>]*(?:src|href|srcset)="?https?:[^ >]*')


@pytest.mark.parametrize(
    ("page", "written", "expected"),
    [
        ("README.md", "[a](docs/cli.md#x) [b](DESIGN.md)", "[a](cli.md#x) [b](design.md)"),
        ("docs/cli.md", "[a](../README.md#exit-codes)", "[a](index.md#exit-codes)"),
        ("docs/decisions/README.md", "[a](../delivery.md)", "[a](../delivery.md)"),
        ("docs/examples.md", "[a](../examples/superhero/combat.yaml)", "[a](gallery/superhero.md)"),
        ("docs/cli.md", "[a](../src/penstock/errors.py) [b](https://x.y)", "a [b](https://x.y)"),
        ("README.md", '<img src="docs/images/a.svg">', '<img src="images/a.svg">'),
        ("README.md", "```sh\n[a](docs/cli.md)\n```", "```sh\n[a](docs/cli.md)\n```"),
    ],
)
def test_links_of_the_repository_become_links_of_the_site(page: str, written: str, expected: str) -> None:
    assert expected == docs_site.with_links(written, page)


@pytest.mark.skipif(not docs_site.MKDOCS.exists(), reason="scripts/setup docs has not run")
def test_the_site_builds_without_a_warning_and_loads_nothing_from_the_web() -> None:
    built = docs_site.main()

    assert 0 == built
    assert [] == [found for page in docs_site.SITE.rglob("*.html") for found in FROM_THE_WEB.findall(page.read_text())]
    assert (docs_site.SITE / "search" / "search_index.js").is_file()
