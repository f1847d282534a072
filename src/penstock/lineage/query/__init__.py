"""Questions to the lineage store. Each is a handful of statements over sets of ids, never one per row."""
