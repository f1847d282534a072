"""The steps, each with what it changes."""
