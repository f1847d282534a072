"""The addresses of the console's pages."""

from urllib.parse import quote, urlencode


def topic_path(topic: str) -> str:
    """Return where a topic's page is."""
    return f"/topics/{quote(topic, safe='')}"


def record_path(topic: str, partition: int, offset: int) -> str:
    """Return where a record is shown, with those behind it."""
    return f"{topic_path(topic)}/messages?{urlencode({'start': offset, 'partition': partition})}"


def group_path(group: str) -> str:
    """Return where a group's page is."""
    return f"/groups/{quote(group, safe='')}"


def pipeline_path(pipeline: str) -> str:
    """Return where a pipeline's page is."""
    return f"/pipelines/{quote(pipeline, safe='')}"


def table_path(table: str) -> str:
    """Return where a table's page is."""
    return f"/tables/{quote(table, safe='')}"


def subject_path(subject: str) -> str:
    """Return where a subject's page is."""
    return f"/schemas/{quote(subject, safe='')}"


def connector_path(name: str) -> str:
    """Return where a connector's page is."""
    return f"/connectors/{quote(name, safe='')}"


def run_path(run_id: str) -> str:
    """Return where the page of a run of the lab is."""
    return f"/lab/runs/{quote(run_id, safe='')}"


def kafka_user_path(user: str) -> str:
    """Return where a user of Kafka is in the REST interface."""
    return f"/access/users/{quote(user, safe='')}"


def lineage_token_path(token_id: str) -> str:
    """Return where a personal token of the lineage service is in the REST interface."""
    return f"/lineage/tokens/{quote(token_id, safe='')}"
