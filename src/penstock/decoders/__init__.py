"""From bytes to columns. One decoder, one file."""
