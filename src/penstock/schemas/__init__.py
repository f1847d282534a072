"""Schemas in a registry that speaks Confluent's API: asking it, and the formats Avro, JSON Schema and Protobuf."""
