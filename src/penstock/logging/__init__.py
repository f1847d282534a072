"""Python's logging into Kafka, Redis or RabbitMQ: records become JSON events, and the program does not wait for it.

```python
from penstock.logging import log_to

log_to("kafka://127.0.0.1:9092", topic="app.logs")
```
"""

from penstock.logging.context import log_context
from penstock.logging.handler import EventHandler, HandlerOptions, log_to

__all__ = ["EventHandler", "HandlerOptions", "log_context", "log_to"]
