"""The driver's side of a pipeline: the Spark session, the batches that run in it, and the loop that makes them."""
