"""Talking to any Kafka: typed clients on confluent-kafka."""
