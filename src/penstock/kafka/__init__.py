"""Talking to any Kafka: typed clients on confluent-kafka. The clients are in `penstock`, admin functions in modules."""

__all__ = ["acls", "apply", "cluster", "groups", "security", "topics", "users"]
