"""Measurements beside a peer, in one run, as ratios."""
