"""Events become facts. Pure: no clock, no database, and nothing that one event leaves for the next but caches.

Guarantee: whatever `events.parse` lets through gives the same facts each time; none of it raises.
"""

from penstock.lineage.extract.extractor import Extractor

__all__ = ["Extractor"]
