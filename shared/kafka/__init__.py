"""Kafka for Ulak: the consumer engine, the producer, dead letters, topics. Its rules (offsets, intake) are pure."""
