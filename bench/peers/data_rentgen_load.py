"""Run by Data.Rentgen's own Python: reads the lines of standard input as events, each as a batch of its consumer.

Several events of one operation in a batch would be merged into one row, whatever their times.
"""

import asyncio
import logging
import sys

from data_rentgen.consumer.extractors import BatchExtractor
from data_rentgen.consumer.saver import DatabaseSaver
from data_rentgen.consumer.subscribers import OpenLineageRunEventAdapter
from data_rentgen.db.factory import create_session_factory
from data_rentgen.db.settings import DatabaseApplicationSettings


async def load():
    """Save all events."""
    sessions = create_session_factory(DatabaseApplicationSettings().database)
    async with sessions() as session:
        for line in sys.stdin.buffer:
            extractor = BatchExtractor()
            extractor.add_events([OpenLineageRunEventAdapter.validate_json(line)])
            await DatabaseSaver(session, logging.getLogger("load")).save(extractor.result)


asyncio.run(load())
