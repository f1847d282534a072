"""The words that every other package speaks: records, columns, schemas, offset ranges and positions."""
