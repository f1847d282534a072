"""The scenarios by name, and what happens in each. Tab asks for no more than these."""

ABOUT = {
    "players": "live players over sockets, and one worker beside them",
    "workers": "two workers of a Spark cluster share the partitions",
    "dead-workers": "no worker while the games are played; then they start, and the lag drains",
    "kill-worker": "workers killed with -9 in mid-work, and started again",
    "kill-broker": "one node of three killed with -9 while events come in and land",
    "spike": "nothing, then an hour's events at once: 90,000, in batches of at most 10,000",
    "midnight": "a day of lineage events by Kafka and HTTP; no consumer over midnight, and a broker more",
    "poison": "2 % malformed records become dead letters, and nothing else does",
}
BY_HAND = {"players": ("players", "workers")}
"""What can be scaled while a scenario runs."""
