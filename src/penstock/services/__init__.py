"""The servers around the cluster, third-party and Penstock's own; each is supervised, and restarted when it dies."""
