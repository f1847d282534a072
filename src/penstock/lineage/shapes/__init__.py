"""What the lineage service answers, as models: the same for the REST interface, `--json` and pictures."""
