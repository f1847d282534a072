"""Where events go. One sink, one file; each states its guarantee at the top."""
