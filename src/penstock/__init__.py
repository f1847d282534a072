"""Penstock: Kafka events into tables, each exactly once, on Spark.

The public names are those in `__all__` here and in `penstock.kafka`, `penstock.kafka.security`, `penstock.logging`,
`penstock.testing`, `penstock.transports` and `penstock.lab.simulator`. Most are imported on first use, so `import
penstock` costs next to nothing, and loads neither Spark nor a Kafka client.
"""

from typing import TYPE_CHECKING, Any

from penstock.errors import (
    BadInput,
    BatchAborted,
    BrokerUnavailable,
    CheckpointLost,
    ClusterReplaced,
    Conflict,
    DeliveryFailed,
    Discontinuity,
    EnvironmentNotReady,
    FormatNotUnderstood,
    LeaderNotAvailable,
    LogTruncated,
    Mistakes,
    NotFound,
    OwnershipLost,
    PenstockError,
    PipelineHalted,
    PositionLost,
    PositionsMoved,
    QueueFull,
    RecordsRefused,
    Refused,
    RegistryUnavailable,
    RetentionPassed,
    SchemaChanged,
    SinkUnavailable,
    SparkDied,
    StateOutdated,
    Terminal,
    TopicRecreated,
    Transient,
)

if TYPE_CHECKING:
    from penstock import errors, kafka, logging, testing, transports
    from penstock.config.settings import connection
    from penstock.kafka.admin import Admin
    from penstock.kafka.connection import Connection
    from penstock.kafka.consumer import Batch, Consumer, ConsumerOptions
    from penstock.kafka.positions import EARLIEST, LATEST, Position
    from penstock.kafka.producer import Producer, ProducerOptions
    from penstock.kafka.reader import Reader, read_all
    from penstock.kafka.topic_spec import TopicSpec
    from penstock.operate.run import Account, run
    from penstock.pipeline.handlers import Pipeline
    from penstock.pipeline.load import load
    from penstock.pipeline.spec import PipelineSpec
    from penstock.schemas.registry import Registry
    from penstock.schemas.schema import Schema
    from penstock.schemas.serializer import Deserializer, Serializer
    from penstock.secret import Secret
    from penstock.steps.handlers import Batcher, OnFailure
    from penstock.steps.message import BatchInfo, Message

__version__ = "0.1.0"

__all__ = [
    "EARLIEST",
    "LATEST",
    "Account",
    "Admin",
    "BadInput",
    "Batch",
    "BatchAborted",
    "BatchInfo",
    "Batcher",
    "BrokerUnavailable",
    "CheckpointLost",
    "ClusterReplaced",
    "Conflict",
    "Connection",
    "Consumer",
    "ConsumerOptions",
    "DeliveryFailed",
    "Deserializer",
    "Discontinuity",
    "EnvironmentNotReady",
    "FormatNotUnderstood",
    "LeaderNotAvailable",
    "LogTruncated",
    "Message",
    "Mistakes",
    "NotFound",
    "OnFailure",
    "OwnershipLost",
    "PenstockError",
    "Pipeline",
    "PipelineHalted",
    "PipelineSpec",
    "Position",
    "PositionLost",
    "PositionsMoved",
    "Producer",
    "ProducerOptions",
    "QueueFull",
    "Reader",
    "RecordsRefused",
    "Refused",
    "Registry",
    "RegistryUnavailable",
    "RetentionPassed",
    "Schema",
    "SchemaChanged",
    "Secret",
    "Serializer",
    "SinkUnavailable",
    "SparkDied",
    "StateOutdated",
    "Terminal",
    "TopicRecreated",
    "TopicSpec",
    "Transient",
    "connection",
    "errors",
    "kafka",
    "load",
    "logging",
    "read_all",
    "run",
    "testing",
    "transports",
]

_DEFINED_IN = {
    "EARLIEST": "kafka.positions",
    "LATEST": "kafka.positions",
    "Account": "operate.run",
    "Admin": "kafka.admin",
    "Batch": "kafka.consumer",
    "BatchInfo": "steps.message",
    "Batcher": "steps.handlers",
    "Connection": "kafka.connection",
    "Consumer": "kafka.consumer",
    "ConsumerOptions": "kafka.consumer",
    "Deserializer": "schemas.serializer",
    "Message": "steps.message",
    "OnFailure": "steps.handlers",
    "Pipeline": "pipeline.handlers",
    "PipelineSpec": "pipeline.spec",
    "Position": "kafka.positions",
    "Producer": "kafka.producer",
    "ProducerOptions": "kafka.producer",
    "Reader": "kafka.reader",
    "Registry": "schemas.registry",
    "Schema": "schemas.schema",
    "Secret": "secret",
    "Serializer": "schemas.serializer",
    "TopicSpec": "kafka.topic_spec",
    "connection": "config.settings",
    "load": "pipeline.load",
    "read_all": "kafka.reader",
    "run": "operate.run",
}
_MODULES = {"errors", "kafka", "logging", "testing", "transports"}


def __getattr__(name: str) -> Any:
    """Import a public name on first use: most programs and commands need few of them, and start sooner."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"penstock.{name}")
    if name not in _DEFINED_IN:
        raise AttributeError(f"module 'penstock' has no attribute '{name}'")
    return getattr(import_module(f"penstock.{_DEFINED_IN[name]}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
