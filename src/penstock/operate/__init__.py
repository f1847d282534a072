"""Operating pipelines: the driver process and its supervisor, status, history, metrics, repair and replay."""
