"""Which parts a project has: one for each service, connector and pipeline of its file."""

from collections.abc import Callable
from typing import cast

from penstock.config.service_names import ServiceName
from penstock.config.services import MODELS, AnyService, Services
from penstock.config.settings import Settings
from penstock.services.control import LocalServices
from penstock.system.connector_part import ConnectorPart
from penstock.system.lineage_part import PIPELINE, LineagePart
from penstock.system.part import Kind, Part
from penstock.system.pipeline_part import PipelinePart
from penstock.system.service_part import ServicePart


class Parts:
    """Makes the parts of one project."""

    def __init__(
        self,
        settings: Settings,
        root: tuple[str, ...],
        services: Callable[[], LocalServices],
        on_progress: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._root = root
        self._services = services
        self._on_progress = on_progress

    def wanted(self, services: Services) -> dict[str, Part]:
        """Return the parts of the project file, with these services, in the order in which they are started."""
        project = self._settings.project
        base = self._settings.project_file.parent.absolute() if self._settings.project_file else None
        parts: dict[str, Part] = {}
        for name, settings in services.named().items():
            parts[name] = self._service(name, settings)
            if name == "connect" and base is not None:
                for each, config in project.connectors.items():
                    parts[each] = ConnectorPart(each, self._settings.home, config, base)
        always = ("registry",) if services.registry is not None else ()
        for part, pipeline in project.pipelines.items():
            if base is not None:
                file = pipeline.file or base / f"{part}.yaml"
                needs = (*always, *pipeline.needs)
                parts[part] = PipelinePart(
                    part, file, self._settings, self._root, self._on_progress, needs, pipeline.speed == "stream"
                )
        return parts

    def recorded(self, name: str, kind: Kind) -> Part:
        """Return a part that is not in the file any more, to look whether it runs and to stop it."""
        home = self._settings.home
        if kind == "connector":
            return ConnectorPart(name, home)
        if kind == "pipeline":
            return PipelinePart(name, home, self._settings, self._root)
        service = cast("ServiceName", name)
        return self._service(service, MODELS[service]())

    def _service(self, name: ServiceName, settings: AnyService) -> Part:
        home = self._settings.home
        project = self._settings.project
        reads = project.model_dump_json(include={"clusters"}) if name == "console" and project.clusters else ""
        service = ServicePart(name, settings, home, self._services, reads=reads)
        if name != "lineage":
            return service
        from penstock.lineage import pipeline_file

        file = pipeline_file.place(home)
        return LineagePart(service, PipelinePart(PIPELINE, file, self._settings, self._root, self._on_progress))
