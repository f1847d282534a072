"""Hive: only queries send events. They are operations, and the session that they name is their run."""

import hashlib
from uuid import UUID

from penstock.lineage.extract import facets
from penstock.lineage.extract.producer import Enclosing, OperationDetails, Producer, Reading, RunDetails
from penstock.lineage.facts import WriteKind
from penstock.lineage.keys import in_utc
from penstock.uuid7 import uuid7

_STATEMENTS = (WriteKind.CREATE, WriteKind.ALTER, WriteKind.DROP, WriteKind.TRUNCATE)
_NOBODY = (None, "", "anonymous", "hive")


class Hive(Producer):
    """Hive's hook."""

    def is_operation(self, reading: Reading) -> bool:  # noqa: ARG002
        """Return True: every event is a query's."""
        return True

    def enclosing(self, reading: Reading) -> Enclosing | None:
        """Return the session. It is named after user and machine, unless the user gave the job a name."""
        session: facets.HiveSession | None = reading.run.get("hive_session")
        if session is None:
            return None
        query: facets.HiveQuery | None = reading.run.get("hive_query")
        command = (query.operation_name or "").lower() if query else ""
        ours = bool(command) and reading.job_name.lower().startswith(f"{command}.")
        return Enclosing(
            _run_id(session),
            reading.namespace,
            f"{session.username}@{session.client_ip}" if ours else reading.job_name,
            "HIVE_SESSION",
            started_at=in_utc(session.creation_time),
            parent=reading.parent,
        )

    def run_details(self, reading: Reading) -> RunDetails:
        """Return the session's id and user."""
        session: facets.HiveSession | None = reading.run.get("hive_session")
        if session is None:
            return {}
        user = None if session.username in _NOBODY else session.username
        return {"external_id": session.session_id, "started_by": user}

    def operation_details(self, reading: Reading) -> OperationDetails:
        """Return the query's id and what kind of statement it is."""
        query: facets.HiveQuery | None = reading.run.get("hive_query")
        if query is None:
            return {"name": reading.job_name}
        return {"name": query.query_id, "description": query.operation_name}

    def writes(self, reading: Reading) -> int:
        """Return what the kind of statement says; a query that writes adds rows."""
        query: facets.HiveQuery | None = reading.run.get("hive_query")
        if query is None or query.operation_name is None:
            return 0
        name = query.operation_name.upper()
        return int(next((kind for kind in _STATEMENTS if name.startswith(kind.name or "")), WriteKind.APPEND))


def _run_id(session: facets.HiveSession) -> UUID:
    """Make the UUIDv7 that this session always has: its time of creation, and a digest of its id."""
    created_at = in_utc(session.creation_time)
    created_ms = 0 if created_at is None else int(created_at.timestamp() * 1000)
    return uuid7(created_ms, int.from_bytes(hashlib.sha256(session.session_id.encode()).digest()[:10]))
