"""A pipeline as expressions alone: Kafka's columns into records for Kafka, good ones and dead letters in one pass."""

from typing import TYPE_CHECKING

import orjson
from pyspark.sql import functions as F  # noqa: N812 - as in every PySpark program

from penstock.delivery.dead_envelope import ENVELOPE, PREFIX, dead_topic_of
from penstock.driver import safe_sql
from penstock.errors import BadInput
from penstock.kafka.topic_limits import NO_TIMESTAMP
from penstock.pipeline.spec import PipelineSpec
from penstock.record.columns import COORDINATES, rule_column, user_columns
from penstock.record.formats import DEAD_LETTER, KAFKA_RECORD
from penstock.sinks.sink import RecordLayout

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CORRUPT = "_corrupt"
_HEADERS = "_kafka_headers"


def records(spec: PipelineSpec, spark: "SparkSession", source: "DataFrame", topic_ids: dict[str, str]) -> "DataFrame":
    """Return what Spark's Kafka sink writes: topic, key, value, headers."""
    frame = _decoded(spec, source, topic_ids)
    for step in spec.steps:
        if (select := step.as_select()) is not None:
            frame = safe_sql.select(spark, frame, select)
    rules = {rule_column(number): rule.that for number, rule in enumerate(spec.expect)}
    frame = safe_sql.judge(spark, frame, "expect", rules, only_if=[])
    for number, rule in enumerate(spec.expect):
        frame = _with_rule(frame, rule_column(number), rule.name, rule.that, rule.otherwise)
    sink = spec.sinks[0]
    layout = sink.realtime()
    if layout is None:
        raise BadInput("`speed: realtime` writes to Kafka")
    if sink.where:
        frame = safe_sql.judge(spark, frame, "where", {"_to": sink.where}, only_if=[])
        frame = frame.where("_error IS NOT NULL OR _to").drop("_to")
    return _encoded(spec, layout, frame)


def _decoded(spec: PipelineSpec, source: "DataFrame", topic_ids: dict[str, str]) -> "DataFrame":
    value, decode = F.col("value"), spec.decode
    decoding = decode.in_spark if decode is not None else None
    columns = decode.arrow_schema if decode is not None else None
    if decoding is None or columns is None:
        raise BadInput("Spark's own expressions cannot decode these values: use `speed: stream`")
    names = columns.names
    if decoding.json_schema is not None:
        options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
        parsed = F.from_json(value.cast("string"), f"{decoding.json_schema}, {_CORRUPT} STRING", options)
        source = source.withColumn("_parsed", parsed)
        required = [field.name for field in columns if not field.nullable]
        missing = [F.col(f"_parsed.`{name}`").isNull() for name in required]
        malformed = F.col("_parsed").isNull() | F.col(f"_parsed.{_CORRUPT}").isNotNull() | (F.length("value") == 0)
        record_error = F.when(malformed, _record_error("decode", "Malformed", F.lit("from_json cannot read it")))
        for name, is_missing in zip(required, missing, strict=True):
            record_error = record_error.when(
                is_missing, _record_error("decode", "SchemaMismatch", F.lit(f"{name}: missing or null"))
            )
        columns = [F.col(f"_parsed.`{name}`").alias(name) for name in names]
    else:
        columns = [value.cast(decoding.cast).alias(names[0])]
        record_error = F.when(F.lit(False), _record_error("", "", F.lit("")))  # noqa: FBT003 - none, and of the right type
    if decoding.tombstones == "drop":
        source = source.where("value IS NOT NULL")
    elif decoding.tombstones == "dead_letter":
        record_error = F.when(
            value.isNull(), _record_error("decode", "Tombstone", F.lit("the value is null"))
        ).otherwise(record_error)
    ids = F.lit("")
    for topic, topic_id in topic_ids.items():
        ids = F.when(F.col("topic") == topic, F.lit(topic_id)).otherwise(ids)
    headers = F.transform("headers", lambda each: F.struct(each["key"].alias("name"), each["value"].alias("value")))
    return source.select(
        *columns,
        F.col("topic").alias("_topic"),
        ids.alias("_topic_id"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.unix_millis("timestamp").alias("_timestamp_ms"),
        F.col("key").alias("_key"),
        F.col("value").alias("_value"),
        headers.alias("_headers"),
        F.col("headers").alias(_HEADERS),
        record_error.alias("_error"),
    )


def _record_error(stage: str, error: str, message: "Column") -> "Column":
    return F.struct(
        F.lit(stage).alias("stage"),
        F.lit(error).alias("error"),
        message.alias("message"),
        F.lit(None).cast("string").alias("line"),
    )


def _with_rule(frame: "DataFrame", column: str, name: str, that: str, otherwise: str) -> "DataFrame":
    broken = F.col("_error").isNull() & ~F.col(column)
    if otherwise == "drop":
        return frame.where(~broken).drop(column)
    if otherwise == "dead_letter":
        record_error = _record_error("expect", "ExpectationFailed", F.lit(f"{name}: {that}"))
        frame = frame.withColumn("_error", F.when(broken, record_error).otherwise(F.col("_error")))
    return frame.drop(column)


def _encoded(spec: PipelineSpec, layout: RecordLayout, frame: "DataFrame") -> "DataFrame":
    dead = F.col("_error").isNotNull()
    names = user_columns(frame.columns)
    key = F.col("_key") if layout.key is None else F.col(f"`{layout.key}`").cast("string").cast("binary")
    whole = F.to_json(F.struct(*(F.col(f"`{name}`") for name in names)), {"ignoreNullFields": "false"})
    value = (whole if layout.value is None else F.col(f"`{layout.value}`").cast("string")).cast("binary")
    topic = F.lit(layout.topic)
    for source in spec.source.named_topics:
        letter_box = dead_topic_of(source, spec.dead_letters.topic, spec.name)
        topic = F.when(dead & (F.col("_topic") == source), F.lit(letter_box)).otherwise(topic)
    columns = {**{name.strip("_"): F.col(name) for name in COORDINATES}, "format": F.lit(KAFKA_RECORD)}
    no_headers = F.array().cast("array<struct<key:string,value:binary>>")
    theirs = F.coalesce(F.col(_HEADERS), no_headers)
    own = F.array(*(_header(name, column) for name, column in columns.items()))
    own = F.concat(theirs, own) if layout.headers else own
    letters = F.concat(theirs, F.array(*_envelope(spec)))
    return frame.select(
        topic.alias("topic"),
        F.when(dead, F.col("_key")).otherwise(key).alias("key"),
        F.when(dead, F.col("_value")).otherwise(value).alias("value"),
        F.when(dead, letters).otherwise(own).alias("headers"),
    )


def _header(name: str, column: "Column") -> "Column":
    return F.struct(F.lit(f"{PREFIX}{name}").alias("key"), column.cast("string").cast("binary").alias("value"))


def _envelope(spec: PipelineSpec) -> "list[Column]":
    columns = {
        "pipeline": F.lit(spec.name),
        **{name: F.col(f"_error.{name}") for name in ("stage", "error", "message")},
        **{name: F.col(f"_{name}") for name in ("topic", "topic_id", "partition", "offset")},
        "source_id": F.col("_topic_id"),
        "at": F.col("_offset"),
        "at_partition": F.col("_partition"),
        "attempt": F.lit(1),
        # The time of the record: a clock of the moment is nothing that expressions have in real time.
        "failed_ms": F.coalesce(F.unix_millis("_timestamp"), F.lit(NO_TIMESTAMP)),
        "sink": F.lit(""),
        "sinks": F.lit(orjson.dumps(spec.sink_names).decode()),
        "timestamp_ms": F.coalesce(F.unix_millis("_timestamp"), F.lit(NO_TIMESTAMP)),
        **{name: F.lit("") for name in ("line", "stub", "value_bytes", "value_sha256")},
        "format": F.lit(DEAD_LETTER),
    }
    return [_header(name, columns[name]) for name in ENVELOPE]
