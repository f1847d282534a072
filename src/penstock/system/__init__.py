"""The whole system of a project: its parts, the order in which they start, and how they differ from what is running."""
