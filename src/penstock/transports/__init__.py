"""Transports: the same messages through Kafka, Redis or RabbitMQ, and a logging handler that sends through any of them.

```python
from penstock.transports import log_to

log_to("kafka://127.0.0.1:9092", topic="app.logs")
```
"""

from penstock.transports.address import open_transport
from penstock.transports.context import log_context
from penstock.transports.handler import EventHandler, HandlerOptions, log_to
from penstock.transports.transport import Incoming, Outgoing, Subscription, Transport

__all__ = [
    "EventHandler",
    "HandlerOptions",
    "Incoming",
    "Outgoing",
    "Subscription",
    "Transport",
    "log_context",
    "log_to",
    "open_transport",
]
