"""The console: Kafka, pipelines and dead letters in a browser, and the REST interface that its pages use.

`api` is that interface, and `pages` is what people see. Pages can do nothing that programs cannot do by REST.
"""
