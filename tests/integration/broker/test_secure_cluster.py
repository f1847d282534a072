"""A secure local cluster: who gets in, who may do what, and that every refusal names its cause."""

import os
import subprocess
from pathlib import Path

import pytest
from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from penstock.broker.certificates import Certificates
from penstock.broker.tools import client_properties, run_tool
from penstock.config.local_connection import internal_connection, local_connection
from penstock.config.secrets_folder import SecretsFolder
from penstock.errors import DeliveryFailed, NotFound, PenstockError, Refused
from penstock.kafka import acls, groups, topics, users
from penstock.kafka.admin import Admin
from penstock.kafka.connection import Connection
from penstock.kafka.consumer import Consumer
from penstock.kafka.producer import Producer, ProducerOptions
from penstock.kafka.reader import Reader, read_all
from penstock.kafka.security import Mtls, Plaintext, Scram, Tls
from penstock.kafka.users import User
from penstock.private import write_private
from penstock.secret import Secret

from conftest import Cli, RunningKafka
from support.files import contents_under, paths_under
from support.waiting import until

NASTY = "a\"b\\c;d=e f'g#é$(x)`y`"


def as_user(kafka: RunningKafka, name: str, password: str | None = None, ca: Path | None = None) -> Connection:
    files = SecretsFolder.of(kafka.cluster.folder)
    secret = Secret.of(password) if password else Secret.parse(f"file:{files.password_file(name)}")
    security = Scram(username=name, password=secret, ca_file=ca or files.ca_pem)
    return Connection(bootstrap_servers=kafka.connection.bootstrap_servers, security=security)


def add(kafka: RunningKafka, cli: Cli, name: str) -> Connection:
    said = cli("user", "add", name, home=kafka.home)
    assert said.code == 0, said.err
    return as_user(kafka, name)


def test_a_wrong_password_is_named(secure_kafka: RunningKafka) -> None:
    with pytest.raises(Refused, match=r"the login of user 'admin' was refused .* wrong user or password"):
        topics.list_topics(Admin(as_user(secure_kafka, "admin", "not-the-password")))


def test_a_wrong_password_stops_producers_and_consumers_too(secure_kafka: RunningKafka) -> None:
    topic = secure_kafka.topic()
    wrong = as_user(secure_kafka, "admin", "not-the-password")

    producer = Producer(wrong)
    producer.send(topic, "x")
    with pytest.raises(DeliveryFailed, match="wrong user or password"):
        producer.flush()
    with pytest.raises(Refused, match="wrong user or password"):
        Reader(wrong, topic)
    with pytest.raises(Refused, match="wrong user or password"):
        Consumer(wrong, [topic], "anybody")


def test_a_plaintext_client_is_told_that_the_cluster_expects_another_security(secure_kafka: RunningKafka) -> None:
    plaintext = Connection(bootstrap_servers=secure_kafka.connection.bootstrap_servers, security=Plaintext())

    with pytest.raises(Refused, match="expects another security type than 'plaintext'"):
        topics.list_topics(Admin(plaintext))


def test_a_wrong_ca_is_named(secure_kafka: RunningKafka, tmp_path: Path) -> None:
    other = SecretsFolder(tmp_path / "other")
    Certificates(other).ensure_ca()

    with pytest.raises(Refused, match="is not signed by the CA that this client trusts"):
        topics.list_topics(Admin(as_user(secure_kafka, "admin", ca=other.ca_pem)))


def test_a_tls_client_at_a_plaintext_port_is_told_so(kafka: RunningKafka) -> None:
    tls = Connection(bootstrap_servers=kafka.connection.bootstrap_servers, security=Tls())

    with pytest.raises(Refused, match="does not speak TLS"):
        topics.list_topics(Admin(tls))


def test_a_certificate_of_another_ca_does_not_open_the_nodes_own_listener(
    secure_kafka: RunningKafka, tmp_path: Path
) -> None:
    forged = SecretsFolder(tmp_path / "forged")
    Certificates(forged).ensure_ca()
    Certificates(forged).ensure_node(1, "127.0.0.1")
    files = SecretsFolder.of(secure_kafka.cluster.folder)
    security = Mtls(certificate_file=forged.node_pem(1), key_file=forged.node_pem(1), ca_file=files.ca_pem)
    servers = internal_connection(secure_kafka.cluster.folder, secure_kafka.cluster.existing()).bootstrap_servers

    with pytest.raises(PenstockError):
        topics.list_topics(Admin(Connection(bootstrap_servers=servers, security=security), timeout_s=5))


def test_without_a_permission_everything_is_denied(secure_kafka: RunningKafka, cli: Cli) -> None:
    topic = secure_kafka.topic()
    nobody = add(secure_kafka, cli, "nobody")

    producer = Producer(nobody, ProducerOptions(delivery_timeout_ms=5000))
    producer.send(topic, "x")
    with pytest.raises(DeliveryFailed):
        producer.flush()
    with pytest.raises((NotFound, Refused), match="user 'nobody'"):
        Reader(nobody, topic)
    with pytest.raises(Refused, match="user 'nobody' has no permission on the cluster"):
        users.list_users(Admin(nobody))
    with pytest.raises(Refused, match="user 'nobody' has no permission on the cluster"):
        users.put(Admin(nobody), "accomplice", "long-enough")
    with pytest.raises(Refused, match="user 'nobody' has no permission on the cluster"):
        acls.allow(Admin(nobody), acls.producer_acls("nobody", ["*"]))
    assert [] == topics.list_topics(Admin(nobody))


def test_the_presets_give_a_producer_and_a_consumer_what_they_need_and_no_more(
    secure_kafka: RunningKafka, cli: Cli
) -> None:
    topic, home = secure_kafka.topic("orders"), secure_kafka.home
    writer, reader = add(secure_kafka, cli, "writer"), add(secure_kafka, cli, "reader")

    assert cli("acl", "allow", "writer", "--producer", "--topic", topic, home=home).code == 0
    assert cli("acl", "allow", "reader", "--consumer", "--topic", topic, "--group", "app-*", home=home).code == 0
    with Producer(writer) as producer:
        producer.send(topic, "from the writer")
    with Consumer(reader, [topic], "app-1") as consumer:
        batch = next(consumer.batches(max_wait_s=0.2))
        batch.commit()

    assert [b"from the writer"] == [message.value() for message in batch]
    assert {(topic, 0): 1} == groups.committed(secure_kafka.admin(), "app-1")
    with pytest.raises(Refused, match="user 'writer' has no permission on the topic"):
        list(Reader(writer, topic))
    with pytest.raises(DeliveryFailed), Producer(reader, ProducerOptions(delivery_timeout_ms=5000)) as producer:
        producer.send(topic, "not allowed")
    with pytest.raises(Refused, match="user 'reader' has no permission on the group"):
        Consumer(reader, [topic], "other-group")


def test_reading_without_a_group_needs_no_permission_on_any_group(secure_kafka: RunningKafka, cli: Cli) -> None:
    topic = secure_kafka.topic("browsed")
    with Producer(secure_kafka.connection) as producer:
        producer.send(topic, "seen")
    add(secure_kafka, cli, "browser")
    assert cli("acl", "allow", "browser", "--operation", "read", "--topic", topic, home=secure_kafka.home).code == 0

    said = cli("--user", "browser", "consume", topic, home=secure_kafka.home)

    assert (0, "seen\n") == (said.code, said.out)


def test_permissions_are_listed_and_taken_away_as_they_were_given(secure_kafka: RunningKafka, cli: Cli) -> None:
    home = secure_kafka.home
    add(secure_kafka, cli, "temp")
    preset = ["temp", "--producer", "--topic", "temp-*", "--transactional-id", "temp"]

    assert cli("acl", "allow", *preset, home=home).code == 0
    listed = cli("acl", "list", "--user", "temp", "--json", home=home).json
    assert cli("acl", "remove", *preset, home=home).code == 0
    again = cli("acl", "remove", *preset, home=home)

    assert [
        ("describe", "topic", "temp-*"),
        ("write", "topic", "temp-*"),
        ("describe", "transactional_id", "temp"),
        ("write", "transactional_id", "temp"),
    ] == [(acl["operation"], acl["resource"], acl["name"]) for acl in listed]
    assert again.code == 3
    assert [] == cli("acl", "list", "--user", "temp", "--json", home=home).json


def test_a_removed_user_is_out_and_leaves_no_permission_behind(secure_kafka: RunningKafka, cli: Cli) -> None:
    home = secure_kafka.home
    leaver = add(secure_kafka, cli, "leaver")
    acls.allow(secure_kafka.admin(), acls.producer_acls("leaver", ["x"]))
    password = leaver.security.librdkafka()["sasl.password"]

    asked = cli("user", "remove", "leaver", home=home)
    listed = {user["user"] for user in cli("user", "list", "--json", home=home).json}
    removed = cli("user", "remove", "leaver", "--yes", home=home)

    assert "Nothing was changed" in asked.err
    assert "leaver" in listed
    assert removed.code == 0
    assert [] == acls.list_acls(secure_kafka.admin(), "leaver")
    with pytest.raises(Refused, match="wrong user or password"):
        topics.list_topics(Admin(as_user(secure_kafka, "leaver", password)))
    assert cli("user", "remove", "leaver", "--yes", home=home).code == 3
    assert cli("--user", "leaver", "topic", "list", home=home).code == 3


def test_a_user_is_removed_with_the_passwords_of_every_mechanism(secure_kafka: RunningKafka) -> None:
    admin = secure_kafka.admin()
    users.put(admin, "twofold", "long-enough")
    older = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    change = UserScramCredentialUpsertion("twofold", older, b"long-enough")
    admin.results(admin.client.alter_user_scram_credentials([change]), "adding a password")
    until(lambda: User(user="twofold", mechanisms=["SCRAM-SHA-256", "SCRAM-SHA-512"]) in _sorted(admin))
    users.remove(admin, "twofold")

    assert "twofold" not in {each.user for each in users.list_users(admin)}


def _sorted(admin: Admin) -> list[User]:
    return [User(user=each.user, mechanisms=sorted(each.mechanisms)) for each in users.list_users(admin)]


def test_a_user_with_the_nodes_name_may_do_no_more_than_any_other(secure_kafka: RunningKafka, cli: Cli) -> None:
    secret = secure_kafka.topic("secret")

    made = cli("user", "add", "penstock-node", home=secure_kafka.home)
    seen = cli("--user", "penstock-node", "topic", "list", "--json", home=secure_kafka.home)
    deleted = cli("--user", "penstock-node", "topic", "delete", secret, "--yes", home=secure_kafka.home)
    with_the_nodes_subject = cli("user", "add", "CN=penstock-node", home=secure_kafka.home)

    assert (0, []) == (made.code, seen.json), made.err
    assert deleted.code in {3, 5}, deleted.err
    assert 2 == with_the_nodes_subject.code
    assert secret in [each.topic for each in topics.list_topics(secure_kafka.admin())]


def test_what_a_secure_cluster_keeps_is_for_its_owner_only(secure_kafka: RunningKafka) -> None:
    kept = paths_under(secure_kafka.cluster.folder)

    assert [] == [path for path, found in kept if not path.is_symlink() and found.st_mode & 0o077]


def test_a_password_with_every_awkward_character_works_in_python_and_in_java(
    secure_kafka: RunningKafka, cli: Cli, tmp_path: Path
) -> None:
    topic, home = secure_kafka.topic("seen"), secure_kafka.home
    write_private(tmp_path / "password", NASTY.encode())

    said = cli("user", "add", "nasty", "--password-file", tmp_path / "password", home=home)
    acls.allow(secure_kafka.admin(), acls.producer_acls("nasty", ["seen*"]))
    nasty = local_connection(secure_kafka.cluster.folder, "nasty")
    in_python = [each.topic for each in topics.list_topics(Admin(nasty))]
    with client_properties(nasty) as login:
        in_java = run_tool(
            secure_kafka.cluster.classpath(),
            "org.apache.kafka.tools.TopicCommand",
            ["--bootstrap-server", nasty.bootstrap_servers, "--command-config", str(login), "--list"],
            login=login,
        )

    assert said.code == 0, said.err
    assert [topic] == in_python == in_java.split()


def test_no_password_is_in_a_log_a_state_file_a_process_list_or_what_was_printed(
    secure_kafka: RunningKafka, cli: Cli
) -> None:
    connection = add(secure_kafka, cli, "canary")
    said = cli("user", "add", "canary", "--json", home=secure_kafka.home)
    passwords = {
        connection.security.librdkafka()["sasl.password"],
        as_user(secure_kafka, "admin").security.librdkafka()["sasl.password"],
    }
    failed = cli(
        "--user", "canary", "produce", "no-such-topic", home=secure_kafka.home, stdin="x\n", PENSTOCK_DEBUG="1"
    )

    processes = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    kept = SecretsFolder.of(secure_kafka.cluster.folder).folder
    files = [(path, text) for path, text in contents_under(secure_kafka.home) if kept not in path.parents]
    texts = [processes, said.out, said.err, failed.out, failed.err, repr(connection), connection.model_dump_json()]
    for password in passwords:
        assert not [text for text in texts if password in text]
        assert not [path for path, text in files if password.encode() in text]
    assert {0o600} == {path.stat().st_mode & 0o777 for path in kept.rglob("*") if path.is_file()}
    assert {0o700} == {path.stat().st_mode & 0o777 for path in [kept, *kept.rglob("*")] if path.is_dir()}


def test_the_nodes_own_listener_is_open_to_the_nodes_certificate(secure_kafka: RunningKafka) -> None:
    topic = secure_kafka.topic()
    inside = internal_connection(secure_kafka.cluster.folder, secure_kafka.cluster.existing())

    with Producer(inside) as producer:
        producer.send(topic, "by certificate")

    assert [b"by certificate"] == [message.value() for message in read_all(secure_kafka.connection, topic)]


def test_a_ca_file_that_is_not_there_is_bad_input_with_a_hint(
    cli: Cli, tmp_path: Path, secure_kafka: RunningKafka
) -> None:
    said = cli(
        "topic",
        "list",
        cwd=tmp_path,
        PENSTOCK_BOOTSTRAP_SERVERS=secure_kafka.connection.bootstrap_servers,
        PENSTOCK_SECURITY_TYPE="tls",
        PENSTOCK_SECURITY_CA_FILE=str(tmp_path / "missing.pem"),
    )

    assert said.code == 2
    assert "cannot be opened" in said.error_lines[0]
    assert os.linesep not in said.error_lines[0]
