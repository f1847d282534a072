"""What delivery guarantees rest on: positions, the checkpoint, dead letters, gaps, lag. Nothing here imports Spark."""
