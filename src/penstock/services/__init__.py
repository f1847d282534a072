"""The servers around the cluster, others' and our own; each is supervised, and started again when it dies."""
