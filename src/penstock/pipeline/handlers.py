"""A pipeline as a class with handlers."""

from typing import Any, ClassVar

from penstock.errors import BadInput
from penstock.pipeline.spec import PipelineSpec
from penstock.steps.handlers import Batcher, Handlers, OnFailure
from penstock.steps.message import BatchInfo, Message
from penstock.wording import nearest

MODULE_PREFIX = "penstock_pipeline_"
"""Prefix of the name of a pipeline file's module in the driver; tasks import it by its own name."""


class Pipeline:
    """A pipeline whose steps end in handlers. Every key of a pipeline file can be an attribute of the class.

    What the handlers return reaches the sinks exactly once. Their side effects, such as calling another service, are at
    least once: a task may run twice.
    """

    batchers: ClassVar[dict[str, Batcher]] = {}
    on_failure: ClassVar[OnFailure | str] = "continue"
    returns: ClassVar[str | None] = None
    batcher_column: ClassVar[str | None] = None

    def prepare_messages(self, messages: list[Message]) -> list[Message]:
        """Get messages together before each is handled, for instance to look something up for all of them at once."""
        return messages

    def handle_message(self, message: Message) -> Message:
        """Handle one message: change its data, choose its batcher, fail it, drop it; return it."""
        return message

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:  # noqa: ARG002
        """Handle a batch; return all of it, in any order."""
        return messages

    def handle_failed(self, messages: list[Message]) -> None:
        """Get messages that failed, before they become dead letters; drop one or change its reason."""

    @classmethod
    def spec(cls) -> PipelineSpec:
        """Return the model of the class."""
        if cls.__qualname__ != cls.__name__:
            raise BadInput(f"the class '{cls.__qualname__}' must be at the top level of its module: tasks import it")
        module = cls.__module__.removeprefix(MODULE_PREFIX)
        if not all(part.isidentifier() for part in module.split(".")):
            raise BadInput(
                f"'{module}' is not a name of a module, and tasks import it: use letters, digits, underscores"
            )
        required = [key for key, field in PipelineSpec.model_fields.items() if field.is_required()]
        own = [name for name in vars(cls) if not name.startswith("_") and name not in PipelineSpec.model_fields]
        for key in required:
            if not hasattr(cls, key) and (meant := nearest(key, own)):
                raise BadInput(f"the class '{cls.__name__}' has no `{key}`; did you mean that by `{meant}`?")
        given: dict[str, Any] = {key: getattr(cls, key) for key in PipelineSpec.model_fields if hasattr(cls, key)}
        handlers = Handlers(
            handlers=f"{module}:{cls.__name__}",
            batchers=cls.batchers,
            on_failure=cls.on_failure,
            returns=cls.returns,
            batcher_column=cls.batcher_column,
        )
        return PipelineSpec.model_validate({**given, "steps": [*given.get("steps", []), handlers]})
