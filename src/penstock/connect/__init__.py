"""Kafka Connect: its connectors, and change data capture by them."""
