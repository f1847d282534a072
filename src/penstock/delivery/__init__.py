"""What makes delivery right: positions, the checkpoint, dead letters, gaps, lag. Nothing here imports Spark."""
