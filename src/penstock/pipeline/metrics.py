"""Where a pipeline's metrics are served."""

from pydantic import BaseModel, Field


class Metrics(BaseModel, frozen=True, extra="forbid"):
    """A page for Prometheus, at `/metrics`, as long as the driver runs."""

    port: int = Field(ge=0, le=65_535, description="The port; 0 takes a free one, which `status` shows.")
    host: str = Field("127.0.0.1", description="The address to listen at.")
