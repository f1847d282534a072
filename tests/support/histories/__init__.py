"""Random histories: what a pipeline lives through in a year, in half a minute, and a judge at the end.

A history is drawn from a seed: which sinks, what is sent, which faults in which order. It runs on shared servers. The
driver is a process of its own, `penstock pipeline run`, so that it can be killed; only Spark's JVM is shared by all.
"""
