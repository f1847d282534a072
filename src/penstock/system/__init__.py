"""The whole system of a project: what it consists of, in which order it comes up, and what differs from what runs."""
