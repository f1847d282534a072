"""Which broker is best: Kafka, Redis Streams, Redis Pub/Sub and RabbitMQ with the same events, in one run."""
