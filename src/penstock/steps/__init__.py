"""What happens to an event between decoding and the sinks. One kind of step, one file."""
