"""Numbers, doubled one by one and printed in batches: the introductory example of Broadway, on Kafka and Spark.

    penstock up
    penstock topic create numbers --partitions 3
    for number in 0 1 2; do seq $number 3 999 | penstock produce numbers --partition $number; done
    penstock pipeline run numbers/doubles.py
    penstock pipeline logs numbers --steps
    penstock table show numbers/tables/numbers

Guarantee: every number in the topic is in the table doubled, exactly once, however often this is run or killed. A line
that is no number becomes a dead letter: penstock dead list. What is printed may be printed again after a crash.
"""

from penstock import Batcher, BatchInfo, Message, Pipeline


class Numbers(Pipeline):
    """Each of the three partitions is a Spark task, which makes batches of its own."""

    name = "numbers"
    source = {"topics": ["numbers"]}
    decode = {"type": "text"}
    batchers = {"default": Batcher(batch_size=100, batch_timeout="2s")}
    returns = "number bigint NOT NULL, doubled bigint NOT NULL"
    sinks = [{"type": "delta", "path": "tables/numbers"}]
    speed = "scheduled"

    def handle_message(self, message: Message) -> Message:
        """Double one number; what `int` refuses fails alone."""
        number = int(message.data["text"])
        message.data = {"number": number, "doubled": 2 * number}
        return message

    def handle_batch(self, batcher: str, messages: list[Message], info: BatchInfo) -> list[Message]:
        """Print a batch, and let it go on to the table."""
        doubled = [message.data["doubled"] for message in messages]
        print(f"{batcher} batch of {info.size} from partition {info.partition}: {doubled}", flush=True)
        return messages
