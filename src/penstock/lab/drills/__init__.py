"""What the textbooks say about Kafka, done on a throwaway cluster and explained while it happens."""
