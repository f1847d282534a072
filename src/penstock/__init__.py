"""Penstock: every Kafka event in your tables exactly once."""

__version__ = "0.1.0"
