"""A plausible history of a shop's jobs, for trying lineage out: made up, the same for the same seed."""
