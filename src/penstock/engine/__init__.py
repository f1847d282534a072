"""Spark: the session, the batches that run in it, and the loop that makes them."""
