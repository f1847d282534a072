"""Passwords of users who sign in: read from a file that is given, or generated and kept beside the users."""

from collections.abc import Callable
from pathlib import Path


def put_password(folder: Path, name: str, given: Path | None, put: Callable[[str], None]) -> Path:
    """Pass a user's password to `put`, and return the file that has it; a generated one is kept once `put` took it."""
    import secrets

    from penstock.private import write_private
    from penstock.secret import Secret

    if given is not None:
        put(Secret.parse(f"file:{given}").reveal())
        return given
    made, kept = secrets.token_urlsafe(24), folder / "passwords" / name
    put(made)  # which has looked at the name, before it becomes a path
    write_private(kept, (made + "\n").encode())
    return kept
