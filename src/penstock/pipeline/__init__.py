"""The pipeline file: its model, how it is read, and how it is checked before anything starts."""
