"""The gateway: events over HTTP into Kafka, for those who cannot write to Kafka themselves.

What it answers 201 to is in Kafka, on all replicas in sync. What it refuses says whether anything was written.
"""
