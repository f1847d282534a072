"""Connectors as the project file has them: planned first, then made; secrets are passed by name only."""

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from pydantic import BaseModel, Field

from penstock.config.local_services import folder_of
from penstock.connect.client import ConnectClient
from penstock.errors import BadInput
from penstock.private import write_private
from penstock.secret import Secret, holds_secret, is_url_with_login
from penstock.services.connect import secrets_folder

_SHOWN = 60
_HIDDEN = "(hidden)"
_NAMED = re.compile(r"\$\{(directory|file):[^{}]+:[^{}:]+\}")


class Step(BaseModel, frozen=True):
    """One step of the plan."""

    connector: str = Field(description="The connector.")
    action: Literal["create", "change", "keep"] = Field(description="What will be done.")
    detail: str = Field(description="From what to what.")


def with_named_secrets(
    name: str, config: Mapping[str, str], home: Path, base: Path = Path(), *, known: Collection[str] = ()
) -> dict[str, str]:
    """Store secrets where the worker reads them by name, and return the settings with these names instead.

    A secret is given as env:NAME or file:PATH. One that is written out is refused: settings are in a topic, and
    everybody who may ask the worker sees them. Names of settings show which ones are secrets; `known` are further ones,
    according to the plugin.
    """
    folder = _folder(home)
    found = dict(config)
    secrets = dict[Path, bytes]()
    for key, value in config.items():
        if is_url_with_login(value):
            raise BadInput(
                f"the setting {key} holds a password: give the user and the password keys of their own",
                safe="Nothing was created",
            )
        if not (holds_secret(key) or key in known) or _NAMED.fullmatch(value):
            continue
        try:
            secret = Secret.parse(value, base)
        except ValueError as error:
            raise BadInput(f"the setting {key}: {error}", safe="Nothing was created") from None
        # Quoted, a name leads nowhere else, and no two connectors have one file.
        file = folder / "@".join(quote(part, safe="") for part in (name, key))
        secrets[file] = secret.reveal().encode()
        found[key] = f"${{directory:{folder}:{file.name}}}"
    for file, content in secrets.items():
        write_private(file, content)
    return found


def forget_secrets(name: str, home: Path) -> None:
    """Remove the secrets of a connector that is gone."""
    folder = _folder(home)
    for file in folder.iterdir() if folder.is_dir() else ():
        if file.name.startswith(f"{quote(name, safe='')}@"):
            file.unlink(missing_ok=True)


def _folder(home: Path) -> Path:
    return secrets_folder(folder_of(home, "connect")).resolve()


def shown(key: str, value: str) -> str:
    """Return a setting as it may be shown: a password that somebody else has written out is hidden."""
    is_written = holds_secret(key) and not _NAMED.fullmatch(value)
    return _HIDDEN if is_written or is_url_with_login(value) else value


def plan(client: ConnectClient, wanted: Mapping[str, Mapping[str, str]]) -> list[Step]:
    """Compare what is wanted with what is there; settings that the worker would refuse are refused before all else."""
    there = {each.name for each in client.connectors()}
    steps = []
    for name, config in wanted.items():
        settings = {**config, "name": name}
        client.require_valid(settings)
        known = client.config(name) if name in there else {}
        keys = sorted({*known, *settings})
        changed = [
            f"{key}: {_short(key, known.get(key))} → {_short(key, settings.get(key))}"
            for key in keys
            if known.get(key) != settings.get(key)
        ]
        if not known:
            steps.append(Step(connector=name, action="create", detail=settings["connector.class"]))
        elif changed:
            steps.append(Step(connector=name, action="change", detail=", ".join(changed)))
        else:
            steps.append(Step(connector=name, action="keep", detail="unchanged"))
    return steps


def _short(key: str, value: str | None) -> str:
    text = "unset" if value is None else shown(key, value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
