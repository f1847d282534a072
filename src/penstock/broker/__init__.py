"""A real Apache Kafka, run for the user on this machine."""
