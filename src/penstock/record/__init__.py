"""The vocabulary of all other packages: records, columns, schemas, offset ranges and positions."""
