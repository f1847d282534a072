"""The names of the drills, in the order in which `penstock drill all` runs them. Tab asks for no more than these."""

NAMES = (
    "keys",
    "leaders",
    "acks",
    "groups",
    "rebalance",
    "commits",
    "semantics",
    "transactions",
    "retention",
    "compaction",
    "queue-or-log",
)
