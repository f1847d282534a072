"""Where a secure cluster keeps its secrets: files that only their owner reads."""

import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from penstock.errors import BadInput
from penstock.private import write_private

USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")


@dataclass(frozen=True)
class SecretsFolder:
    """The names of the files."""

    folder: Path

    @classmethod
    def of(cls, cluster_folder: Path) -> "SecretsFolder":
        """Return the secrets of the cluster in a folder."""
        return cls(cluster_folder / "secrets")

    @property
    def ca_pem(self) -> Path:
        """The CA's certificate: what clients trust. Not a secret."""
        return self.folder / "ca.pem"

    @property
    def ca_key(self) -> Path:
        """The CA's key: whoever has it can make nodes."""
        return self.folder / "ca.key"

    def node_pem(self, node_id: int) -> Path:
        """Key and certificate chain of a node, in one file as Kafka wants it."""
        return self.folder / f"node-{node_id}.pem"

    def password_file(self, user: str) -> Path:
        """Return where a user's password is kept. The name is checked, so that it cannot lead to another folder."""
        if not USER_NAME.fullmatch(user):
            raise BadInput(f"'{user}' is not a user name: letters, digits, dot, dash and underscore, 63 at most")
        return self.folder / "users" / f"{user}.password"

    def new_password(self, user: str) -> Path:
        """Generate a password and keep it."""
        path = self.password_file(user)
        write_password(path)
        return path


def write_password(path: Path) -> None:
    """Generate a password and keep it in a file."""
    write_private(path, (secrets.token_urlsafe(24) + "\n").encode())
