"""Where events come from. One source, one file."""
