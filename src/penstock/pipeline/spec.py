"""The pipeline file: one model behind YAML and Python."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    AfterValidator,
    BaseModel,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from penstock.config.document import contradiction
from penstock.decoders.avro import Avro
from penstock.decoders.decoder import DecoderModel
from penstock.decoders.json import Json as JsonDecode
from penstock.decoders.protobuf import Protobuf
from penstock.decoders.raw import Raw
from penstock.decoders.text import Text
from penstock.kafka.topic_spec import TOPIC_NAME
from penstock.pipeline.components import Components
from penstock.pipeline.expectation import Expectation
from penstock.pipeline.metrics import Metrics
from penstock.pipeline.rate import Rate
from penstock.pipeline.realtime import Realtime
from penstock.quantities import DurationMs, SizeBytes
from penstock.record.columns import CHANGE
from penstock.secret import Secret, base_folder, holds_secret
from penstock.sinks.console import Console
from penstock.sinks.delta import Delta
from penstock.sinks.iceberg import Iceberg
from penstock.sinks.json import Json as JsonSink
from penstock.sinks.kafka import Kafka as KafkaSink
from penstock.sinks.postgres import Postgres
from penstock.sinks.sink import SinkModel
from penstock.sinks.spark_format import SparkFormat
from penstock.sources.delta import DeltaTable
from penstock.sources.files import Files
from penstock.sources.kafka import Kafka
from penstock.sources.source import SourceModel
from penstock.steps.cdc import Cdc
from penstock.steps.handlers import Handlers
from penstock.steps.python import Python
from penstock.steps.select import condition
from penstock.steps.sql import Sql
from penstock.steps.stateful import Stateful

NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
SINK_NAME = re.compile(r"[A-Za-z0-9_-]+")

Source = Annotated[Kafka | Files | DeltaTable | SourceModel, Components("penstock.sources", SourceModel)]
Decode = Annotated[
    JsonDecode | Avro | Protobuf | Text | Raw | DecoderModel, Components("penstock.decoders", DecoderModel)
]
Step = Sql | Python | Handlers | Cdc | Stateful
SINKS = Components("penstock.sinks", SinkModel)  # type: ignore[type-abstract]  # the base itself is meant


def plain_name(typed: str) -> str:
    """Return the valid name of a pipeline that is nearest to what was typed; empty if there is none."""
    return re.sub("[^a-z0-9]+", "-", typed.lower()).strip("-")[:63]


def _plain_sink(sink: SinkModel) -> SinkModel:
    if sink.name is not None and SINK_NAME.fullmatch(sink.name) is None:
        raise contradiction("a sink's name has letters, digits, dashes and underscores", "name")
    if sink.where is None:
        return sink
    try:
        return sink.model_copy(update={"where": condition(sink.where)})
    except ValueError as error:
        raise contradiction(str(error), "where") from None


def _kind_of_step(value: Any) -> str | None:
    keys = value if isinstance(value, dict) else getattr(value, "__dict__", {})
    return next((model.__name__ for model in get_args(Step) if model.keyword in keys), None)


SinkSpec = Annotated[
    Delta | Iceberg | JsonSink | Postgres | KafkaSink | Console | SparkFormat | SinkModel,
    SINKS,
    AfterValidator(_plain_sink),
]
# Tags must differ from keys: a complaint's place holds both.
_StepByKey = Annotated[
    Annotated[Sql, Tag("Sql")]
    | Annotated[Python, Tag("Python")]
    | Annotated[Handlers, Tag("Handlers")]
    | Annotated[Cdc, Tag("Cdc")]
    | Annotated[Stateful, Tag("Stateful")],
    Discriminator(
        _kind_of_step,
        custom_error_type="unknown_kind",
        custom_error_message="a step has one of the keys {known}",
        custom_error_context={"known": ", ".join(each.keyword for each in get_args(Step))},
    ),
]


class Batch(BaseModel, frozen=True, extra="forbid"):
    """How much is read at once. The first batch after downtime is as bounded as any other."""

    max_events: int = Field(100_000, ge=1, le=10_000_000, description="Events a batch, over all partitions.")
    max_bytes: SizeBytes = Field(256_000_000, ge=1_000_000, description="Bytes of values a batch, roughly.")
    max_wait: DurationMs = Field(
        1000,
        ge=0,
        description="With `speed: stream`, how long to wait for a batch to fill before running a smaller one.",
    )


class DeadLetters(BaseModel, frozen=True, extra="forbid"):
    """Where failed records go."""

    topic: str = Field(
        "{topic}.dead", description="Dead-letter topic; `{topic}` stands for the source topic. Made if it is not there."
    )

    @field_validator("topic")
    @classmethod
    def _topic_is_a_name(cls, value: str) -> str:
        if TOPIC_NAME.fullmatch(value.replace("{topic}", "t")) is None:
            raise ValueError("a topic's name has letters, digits, dots, dashes and underscores, and here also {topic}")
        return value


class Retry(BaseModel, frozen=True, extra="forbid"):
    """How long an outage is waited for. An outage is never a record's fault."""

    give_up_after: DurationMs = Field(
        600_000, ge=0, description="After this long without a successful batch, the driver ends with exit code 4."
    )


class PipelineSpec(BaseModel, frozen=True, extra="forbid", hide_input_in_errors=True):
    """A pipeline: one source, a decoder, steps, expectations, sinks."""

    name: str = Field(description="Lower-case letters, digits and dashes. Positions, groups and folders carry it.")
    source: Source = Field(description="Where events come from.", examples=[{"topics": ["orders"]}])
    decode: Decode | None = Field(
        None,
        description="How bytes become columns; not for a `delta` source.",
        examples=[{"type": "json", "schema": "id bigint NOT NULL, name string"}],
    )
    steps: list[_StepByKey] = Field(
        default_factory=list,
        description="What happens to each event, in order.",
        examples=[[{"sql": "SELECT *, amount > 100 AS large FROM events"}]],
    )
    expect: list[Expectation] = Field(
        default_factory=list,
        description="What must be true of each row after the steps.",
        examples=[[{"name": "amount is known", "that": "amount IS NOT NULL"}]],
    )
    batch: Batch = Field(default_factory=Batch, description="How much is read at once.")
    sinks: list[SinkSpec] = Field(
        min_length=1,
        description="Where rows go. One read of Kafka feeds all of them.",
        examples=[[{"type": "delta", "path": "tables/orders"}]],
    )
    dead_letters: DeadLetters = Field(default_factory=DeadLetters, description="Where failed records go.")
    speed: Literal["scheduled", "stream", "realtime"] = Field(
        "stream",
        description="`scheduled` reads what is there now and ends; `stream` goes on; `realtime` goes on record by"
        " record, from Kafka to Kafka, with SQL only and at least once.",
    )
    realtime: Realtime = Field(default_factory=Realtime, description="What only `speed: realtime` has.")
    rate: Rate | None = Field(
        None, description="At most this many events within a time; `penstock pipeline rate` changes it while it runs."
    )
    sql_engine: Literal["auto", "spark"] = Field(
        "auto",
        description="`auto` evaluates SQL in the Python workers, if they give exactly Spark's result for all of it, and"
        " in Spark if not (`penstock pipeline check --explain`); `spark` always evaluates it in Spark.",
    )
    spark: dict[str, str] = Field(
        default_factory=dict,
        description="Settings of Spark's own, such as `spark.executor.memory: 2g`. Secrets are named:"
        " `spark.authenticate.secret: env:NAME`, or `file:PATH`.",
    )
    metrics: Metrics | None = Field(None, description="Where Prometheus finds the pipeline's metrics.")
    retry: Retry = Field(default_factory=Retry, description="How long an outage is waited for.")

    @field_validator("name")
    @classmethod
    def _name_is_plain(cls, value: str) -> str:
        if NAME.fullmatch(value) is None:
            plain = plain_name(value)
            meant = f"; write it as {plain}" if plain else ""
            raise ValueError(f"a pipeline's name has lower-case letters, digits and dashes, at most 63{meant}")
        return value

    @field_validator("spark")
    @classmethod
    def _settings_are_sparks(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for name in value:
            if not name.startswith("spark."):
                raise ValueError(f"'{name}' is not a setting of Spark's: their names begin with spark.")
        secrets = {name: Secret.parse(each, base_folder(info)) for name, each in value.items() if holds_secret(name)}
        return {**value, **{name: secret.source for name, secret in secrets.items()}}

    @field_validator("source", mode="before")
    @classmethod
    def _kafka_is_the_default(cls, value: Any) -> Any:
        return {"type": "kafka", **value} if isinstance(value, dict) and "type" not in value else value

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if self.is_stateful and self.decode is not None:
            raise contradiction("a `delta` source has columns already: leave out `decode`", "decode")
        if not self.is_stateful and self.decode is None:
            example = '{type: json, schema: "id bigint"}'
            raise contradiction(f"this key is required: say how bytes become columns, such as {example}", "decode")
        names = self.sink_names
        for number, name in enumerate(names):
            if name in names[:number]:
                raise contradiction(f"two sinks are called '{name}': give each a `name`", "sinks", number, "name")
            if name == "dead":
                raise contradiction("no sink can be called 'dead': the dead letters are", "sinks", number, "name")
        handlers = [number for number, step in enumerate(self.steps) if step.has_handlers]
        if len(handlers) > 1:
            raise contradiction("a pipeline has one class of handlers", "steps", handlers[1])
        rules = [rule.name for rule in self.expect]
        for number, name in enumerate(rules):
            if name in rules[:number]:
                raise contradiction("two expectations have the same name", "expect", number, "name")
        return self

    @property
    def is_stateful(self) -> bool:
        """Return whether this pipeline works on a landed table, with Spark's state, not on events one by one."""
        return self.source.is_table

    @property
    def has_changes(self) -> bool:
        """Return whether rows are changes of a table, which sinks apply by key."""
        return any(step.makes_changes for step in self.steps)

    def reserved_columns(self, sink: SinkModel) -> tuple[str, ...]:
        """Return the columns of Penstock that a sink gets behind the user's."""
        return (*sink.reserved_columns, *((CHANGE.name,) if self.has_changes else ()))

    @property
    def reads_kafka(self) -> bool:
        """Return whether events come from Kafka's topics."""
        return self.source.in_kafka

    @property
    def named_topics(self) -> Sequence[str]:
        """Return the topics that events come from; none if they are found by a pattern, or are no topics."""
        return self.source.named_topics

    def resolved(self) -> Self:
        """Return the pipeline with its columns, from a registry if the decoder needs one."""
        if self.decode is None:
            return self
        return self.model_copy(update={"decode": self.decode.resolved(self.named_topics)})

    def with_columns(self, columns: Mapping[str, str]) -> Self:
        """Return the pipeline with columns that its records have brought, in the steps that accept them."""
        return self.model_copy(update={"steps": [step.with_columns(columns) for step in self.steps]})

    @property
    def max_wait_ms(self) -> int:
        """How long a batch may wait to fill; batchers have limits of their own."""
        waits = [each for step in self.steps for each in step.batch_timeouts_ms]
        return min(waits, default=self.batch.max_wait)

    @property
    def sink_names(self) -> list[str]:
        """The sinks' names, in order."""
        return [sink.name or sink.type for sink in self.sinks]
