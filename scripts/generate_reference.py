"""Write the reference of penstock.yaml and of pipeline files, pages and JSON Schemas, from the models behind them.

Run it after changing a model, a setting or an environment variable. With `--check` it writes nothing and ends
with exit code 1 if a file is stale.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from reference import pipeline_file, project_file

ROOT = Path(__file__).parent.parent


def _text(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=2) + "\n"


def wanted() -> dict[Path, str]:
    """Return what each generated file should hold."""
    project, pipeline = project_file.file_schema(), pipeline_file.file_schema()
    return {
        ROOT / "docs/project-file.md": project_file.page(project),
        ROOT / "src/penstock/config/penstock.schema.json": _text(project),
        ROOT / "docs/pipeline-file.md": pipeline_file.page(pipeline),
        ROOT / "src/penstock/pipeline/pipeline.schema.json": _text(pipeline),
    }


def main() -> int:
    """Write the files, or look whether they are as they should be."""
    parser = argparse.ArgumentParser(description="Write the reference of penstock.yaml and of pipeline files.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a file is stale")
    only_check = parser.parse_args().check
    files = wanted()
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    for path in stale:
        name = path.relative_to(ROOT)
        if only_check:
            print(f"{name} is stale. Run: .venv/bin/python scripts/{Path(__file__).name}", file=sys.stderr)
        else:
            path.write_text(files[path], encoding="utf-8")
            print(f"{name} written")
    return 1 if only_check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
