"""Packages that are installed for a test: a module and what a packager notes beside it, in a folder of their own."""

import tomllib
from pathlib import Path


def install(folder: Path, name: str, module: str, entry_points: dict[str, dict[str, str]]) -> None:
    """Lay a package of one module into a folder, as `pip install --target` would; entry points by group and name."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.py").write_text(module)
    notes = folder / f"{name}-1.0.dist-info"
    notes.mkdir()
    (notes / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
    lines = [
        f"[{group}]\n" + "".join(f"{key} = {value}\n" for key, value in listed.items())
        for group, listed in entry_points.items()
    ]
    (notes / "entry_points.txt").write_text("\n".join(lines))


def install_example(folder: Path, example: str, module: str) -> None:
    """Install the package of an example, with the entry points that its pyproject.toml names."""
    source = Path(__file__).parents[2] / "examples" / example
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    install(folder, module, (source / f"{module}.py").read_text(), project["entry-points"])
