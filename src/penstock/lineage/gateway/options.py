"""How a gateway listens, what it takes, and how much of it at a time."""

from typing import Self

from pydantic import BaseModel, Field, model_validator

from penstock.kafka.topic_spec import CONNECT_GROUP, NO_TOPIC_NAME, TOPIC_NAME
from penstock.loopback import is_loopback
from penstock.secret import Secret

LINEAGE_TOPIC = "input.runs"


class GatewayLimits(BaseModel, frozen=True, extra="forbid"):
    """What one request, one client and all of them together may ask for."""

    body_max_bytes: int = Field(16 * 2**20, ge=1, description="Bytes of a body as it is sent.")
    inflated_max_bytes: int = Field(64 * 2**20, ge=1, description="Bytes of a body once it is inflated.")
    event_max_bytes: int = Field(
        900_000, ge=1, le=900_000, description="Bytes of one event; Kafka's batches hold a million."
    )
    batch_max_events: int = Field(10_000, ge=1, description="Events of one body.")
    depth_max: int = Field(200, ge=1, le=500, description="Objects and arrays within each other in one event.")
    buffer_max_bytes: int = Field(
        256 * 2**20,
        ge=2**20,
        description="Bytes of all bodies that are being read or not acknowledged yet; one address has half at most.",
    )
    requests_max: int = Field(
        1024, ge=1, description="Requests that are worked on at a time; half at most are of one address."
    )
    connections_max: int = Field(2_000, ge=1, description="Open connections.")
    rate_events_per_s: float | None = Field(
        None, gt=0, description="Events a second from one address, bursts of one second included; no limit if left out."
    )
    body_timeout_s: float = Field(30.0, gt=0, description="Seconds that a client has to send a body.")
    answer_timeout_s: float = Field(
        3.0, ge=0.1, description="Seconds that Kafka has to acknowledge; OpenLineage's clients wait for five."
    )


class GatewayOptions(BaseModel, frozen=True, extra="forbid"):
    """One gateway."""

    host: str = Field("127.0.0.1", description="Address to listen on; any address but the loopback requires a token.")
    port: int = Field(8002, ge=0, le=65_535, description="Port to listen on; 0 takes a free one.")
    token: Secret | None = Field(None, description="What clients have to show as `Authorization: Bearer TOKEN`.")
    topic: str = Field(LINEAGE_TOPIC, description="Topic of OpenLineage events; made if Kafka has none.")
    connect_group: str = Field(
        CONNECT_GROUP, description="Group of the project's Kafka Connect; nothing is taken for its topics."
    )
    certificate: str | None = Field(None, description="File with the certificate (PEM) for HTTPS.")
    key: str | None = Field(None, description="File with the certificate's key (PEM).")
    limits: GatewayLimits = Field(GatewayLimits(), description="What it takes.")

    @model_validator(mode="after")
    def _no_open_door(self) -> Self:
        if self.token is None and not is_loopback(self.host):
            raise ValueError(f"a gateway at {self.host} is open to others and needs a token: --token-file FILE")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a certificate and its key go together")
        if not TOPIC_NAME.fullmatch(self.topic):
            raise ValueError(NO_TOPIC_NAME)
        return self
