"""Lineage: OpenLineage events become facts, facts a store, and the store answers where data come from.

`extract` reads events into `facts`, `store` keeps them, and `api` answers questions about them.
"""
