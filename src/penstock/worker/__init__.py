"""What Spark pickles and runs in its Python workers: nothing secret, and importable wherever penstock is installed."""
