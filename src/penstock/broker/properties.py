"""server.properties of one node, from the cluster's state."""

from pathlib import Path

from penstock.broker.certificates import NODE_PRINCIPAL
from penstock.config.cluster_state import ClusterState, NodeState
from penstock.config.local_connection import ADMIN_USER
from penstock.config.secrets_folder import SecretsFolder
from penstock.jvm.java_properties import properties_text

_OFFSETS_KEPT_MINUTES = 10 * 365 * 24 * 60
_CLEANER_BYTES = 128 * 2**20
# Enough for one machine; Kafka's 50 partitions each would only slow the start.
_INTERNAL_TOPIC_PARTITIONS = 8


def server_properties(state: ClusterState, node: NodeState, data: Path, files: SecretsFolder) -> str:
    """Write the node's configuration; it holds paths of secrets, never a secret."""
    replication = state.replication
    min_insync = max(1, replication - 1)
    listeners = [f"CLIENT://{state.host}:{node.client_port}"]
    if node.internal_port:
        listeners.append(f"INTERNAL://{state.host}:{node.internal_port}")
    announced = ",".join(listeners)
    if node.controller:
        listeners.append(f"CONTROLLER://{state.host}:{node.controller_port}")
    settings = {
        "node.id": node.id,
        "process.roles": "broker,controller" if node.controller else "broker",
        "controller.quorum.voters": ",".join(
            f"{voter.id}@{state.host}:{voter.controller_port}" for voter in state.controllers
        ),
        "controller.listener.names": "CONTROLLER",
        "listeners": ",".join(listeners),
        "advertised.listeners": announced,
        "inter.broker.listener.name": "INTERNAL" if state.secure else "CLIENT",
        "listener.security.protocol.map": (
            "CLIENT:SASL_SSL,INTERNAL:SSL,CONTROLLER:SSL" if state.secure else "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT"
        ),
        "log.dirs": data,
        "default.replication.factor": replication,
        "min.insync.replicas": min_insync,
        "offsets.topic.replication.factor": replication,
        "offsets.topic.num.partitions": _INTERNAL_TOPIC_PARTITIONS,
        # A group that has no members keeps its offsets: pipelines have positions there, and may rest for longer than
        # the week that Kafka grants by default.
        "offsets.retention.minutes": _OFFSETS_KEPT_MINUTES,
        "transaction.state.log.replication.factor": replication,
        "transaction.state.log.min.isr": min_insync,
        "transaction.state.log.num.partitions": _INTERNAL_TOPIC_PARTITIONS,
        "share.coordinator.state.topic.replication.factor": replication,
        "share.coordinator.state.topic.min.isr": min_insync,
        "share.coordinator.state.topic.num.partitions": _INTERNAL_TOPIC_PARTITIONS,
        # A mistyped topic name must be an error, not a new topic that swallows events.
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "group.initial.rebalance.delay.ms": 0,
        "broker.session.timeout.ms": 6000,
        "num.recovery.threads.per.data.dir": 2,
        # Kafka's own 128 MB would be half of a small heap, and compaction would end the node.
        "log.cleaner.dedupe.buffer.size": min(_CLEANER_BYTES, state.heap_bytes // 8),
        **(_security(node, files) if state.secure else {}),
    }
    return properties_text(settings)


def _security(node: NodeState, files: SecretsFolder) -> dict[str, str]:
    """Nodes know each other by certificate, clients log in by SCRAM, and what no ACL allows is denied."""
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(files.node_pem(node.id)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(files.ca_pem),
        "listener.name.internal.ssl.client.auth": "required",
        "listener.name.controller.ssl.client.auth": "required",
        "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "listener.name.client.scram-sha-512.sasl.jaas.config": (
            "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "false",
        "super.users": f"User:{NODE_PRINCIPAL};User:{ADMIN_USER}",
    }
