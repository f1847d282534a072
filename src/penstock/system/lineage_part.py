"""Lineage as a part of the system: the store, the pipeline that fills it, and the service that is asked."""

from dataclasses import dataclass
from typing import ClassVar

from penstock.config.services import LineageService
from penstock.extras import require
from penstock.system.part import Kind
from penstock.system.pipeline_part import PipelinePart
from penstock.system.service_part import ServicePart

_PARTITIONS = 4
"""Of a topic that is not there, as the gateway makes it."""
PIPELINE = "lineage"


@dataclass(frozen=True)
class LineagePart:
    """Both halves of lineage: either alone would be of no use."""

    asked: ServicePart
    filled: PipelinePart
    """Its file is written here, before it is started."""
    needs: tuple[str, ...] = ()
    kind: ClassVar[Kind] = "service"

    @property
    def name(self) -> str:
        """Return the service's name, which is the pipeline's, too."""
        return self.asked.name

    def digest(self) -> str:
        """Return a digest of the service's settings, which are the pipeline's, too."""
        return self.asked.digest()

    def is_running(self) -> bool:
        """Return whether both halves run."""
        return self.asked.is_running() and self.filled.is_running()

    def start(self) -> None:
        """Make the store and the topics if they are missing, and start whichever half does not run."""
        require("lineage", "lineage")
        from penstock.kafka import topics
        from penstock.kafka.admin import Admin
        from penstock.kafka.topic_spec import TopicSpec
        from penstock.lineage import pipeline_file
        from penstock.lineage.store.address import StoreAddress, default_path
        from penstock.lineage.store.database import migrate

        settings = self.asked.settings
        names = list(settings.topics) if isinstance(settings, LineageService) else []
        address = StoreAddress(store=str(default_path(self.asked.home)))
        migrate(address)
        admin = Admin(self.filled.settings.connection())
        for each in names:
            topics.ensure(admin, each, TopicSpec(partitions=_PARTITIONS))
        pipeline_file.write(self.asked.home, address, topics=names, pattern=None, batch={})
        if not self.filled.is_running():
            self.filled.start()
        self.asked.start()

    def wait(self) -> str:
        """Wait until events are being taken, and a question is answered."""
        self.filled.wait()
        return self.asked.wait()

    def stop(self) -> None:
        """Stop both halves."""
        self.asked.stop()
        if self.filled.is_running():
            self.filled.stop()
