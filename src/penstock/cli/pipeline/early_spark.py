"""Spark's JVM for a preview, launched before the pipeline file is understood: by then it has half started.

Whether Spark is needed is known only after half a second of imports. Until then it is guessed by the file's text: one
that has SQL and was never previewed without Spark needs it, for Spark has to analyse the SQL at least. A guess that is
wrong costs a JVM that is ended again, once for each text.
"""

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from penstock.errors import PenstockError

_SQL = re.compile(rb"""\b(sql|expect|where)["']?\s*:""")
_OWN_SETTINGS = re.compile(rb"""\bspark["']?\s*:""")
_MOST = 1000


class EarlySpark:
    """The guess for one file. Texts that need no Spark are kept beside the analysis, if there is a place for it."""

    def __init__(self, file: Path, analysis: Path | None) -> None:
        self._known = analysis.with_name("without_spark") if analysis is not None else None
        try:
            self._text = file.read_bytes() if file.suffix in {".yaml", ".yml"} else b""
        except OSError:  # whoever reads the file says what is wrong with it
            self._text = b""
        self._is_launched = False

    def launch(self) -> None:
        """Launch the JVM if it will be needed, as far as that can be guessed."""
        if not _SQL.search(self._text) or _OWN_SETTINGS.search(self._text) or self._digest in self._without():
            return
        from penstock.driver.brief_spark import launch_jvm

        with suppress(PenstockError):  # without Java, say: told where Spark is really needed
            launch_jvm()
            self._is_launched = True

    def settle(self, overrides: Mapping[str, str], *, is_needed: bool) -> Callable[[], None]:
        """Start Spark in the JVM, or in one that is launched now, and return what ends it; or end the JVM now."""
        if is_needed:
            from penstock.driver.brief_spark import start

            return start(overrides)
        if self._is_launched:
            from penstock.driver.session import end_launched

            end_launched()
            if self._known is not None:
                kept = [*self._without(), self._digest][-_MOST:]
                with suppress(OSError):  # the next one guesses wrong once more
                    self._known.write_text("\n".join(kept), encoding="utf-8")
        return _nothing

    @property
    def _digest(self) -> str:
        return hashlib.sha256(self._text).hexdigest()

    def _without(self) -> list[str]:
        try:
            return self._known.read_text(encoding="utf-8").split() if self._known is not None else []
        except (OSError, UnicodeDecodeError):
            return []


def _nothing() -> None:
    """Do nothing."""
