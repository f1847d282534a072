"""The pipelines of a project, as the project file names them."""

from typing import Literal

from pydantic import BaseModel, Field

from penstock.secret import PathFromFile


class ProjectPipeline(BaseModel, frozen=True, extra="forbid"):
    """A pipeline that `penstock up` runs in the background."""

    file: PathFromFile | None = Field(
        None, description="Its file, from the project file's folder; NAME.yaml if left out."
    )
    speed: Literal["stream"] | None = Field(
        None, description="`stream` lets it go on when it has caught up, also if its file says `scheduled`."
    )
    needs: tuple[str, ...] = Field(
        (), description="Pipelines, services and connectors that have to be ready before it is started."
    )
