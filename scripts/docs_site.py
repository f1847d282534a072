"""Build the documentation as a site that needs no network: `make docs`.

Pages are those of the repository, so that they read the same there: README, DESIGN and their fellows become pages
beside those of `docs`, and each example becomes a page of its files. Links are rewritten for these places.
"""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PLACE = ROOT / ".docs"
PAGES, SITE = PLACE / "pages", PLACE / "site"
MKDOCS = ROOT / ".venv" / "docs" / "bin" / "mkdocs"
MOVED = {"README.md": "index.md", "DESIGN.md": "design.md", "CONTRIBUTING.md": "contributing.md"}
MOVED |= {"CHANGELOG.md": "changelog.md"}
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".jsonl": "json", ".csv": "text"}
_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\[\]]*)\]\(([^)\s]+)\)")
_HTML = re.compile(r'\b(src|srcset)="docs/')


def place_of(target: str) -> str | None:
    """Return where a file of the repository is on the site, None if nowhere."""
    if target in MOVED:
        return MOVED[target]
    top, _, rest = target.partition("/")
    if top == "docs":
        return rest
    if top == "examples":
        return f"gallery/{Path(rest.partition('/')[0]).stem}.md"
    return None


def with_links(text: str, page: str) -> str:
    """Return a page of the repository with links as they are on the site; what is not there is named without a link."""
    own = place_of(page) or page

    def link(found: re.Match[str]) -> str:
        words, address = found.groups()
        path, sign, anchor = address.partition("#")
        if ":" in path or not path:
            return found.group()
        target = (ROOT / page).parent / path
        there = place_of(str(target.resolve().relative_to(ROOT)))
        if there is None:
            return words
        if there.startswith("gallery/"):
            sign = anchor = ""
        up = "../" * own.count("/")
        return f"[{words}]({up}{there}{sign}{anchor})"

    parts = _FENCED.split(text)
    return "".join(part if part.startswith("```") else _HTML.sub(r'\1="', _LINK.sub(link, part)) for part in parts)


def gallery_page(example: Path) -> str:
    """Return a page with the files of an example."""
    files = [example] if example.is_file() else sorted(each for each in example.iterdir() if each.is_file())
    shown = [each for each in files if each.suffix in LANGUAGES]
    name = example.stem
    lines = [f"# Example: {name}", "", f"Copy it with `penstock examples copy {name}`.", ""]
    for each in shown:
        code = each.read_text(encoding="utf-8").rstrip()
        lines += [f"## {each.name}", "", f"````{LANGUAGES[each.suffix]}", code, "````", ""]
    return "\n".join(lines)


def stage(pages: Path) -> None:
    """Write every page of the site into a folder."""
    shutil.rmtree(pages, ignore_errors=True)
    shutil.copytree(ROOT / "docs", pages)
    sources = [*MOVED, *(str(each.relative_to(ROOT)) for each in sorted((ROOT / "docs").rglob("*.md")))]
    for source in sources:
        place = pages / (place_of(source) or source)
        place.write_text(with_links((ROOT / source).read_text(encoding="utf-8"), source), encoding="utf-8")
    (pages / "javascripts").mkdir()
    shutil.copy(ROOT / "scripts" / "iframe-worker.js", pages / "javascripts")
    gallery = pages / "gallery"
    gallery.mkdir()
    for example in sorted((ROOT / "examples").iterdir()):
        if example.is_dir() or example.suffix == ".py":
            (gallery / f"{example.stem}.md").write_text(gallery_page(example), encoding="utf-8")


def main() -> int:
    """Build the site; a broken link, or a page that is nowhere in the menu, is an error."""
    stage(PAGES)
    command = [str(MKDOCS), "build", "--strict", "--quiet", "--config-file", str(ROOT / "mkdocs.yml")]
    built = subprocess.run(command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if built.returncode == 0:
        print(f"the documentation is in {SITE / 'index.html'}")
    return built.returncode


if __name__ == "__main__":
    sys.exit(main())
