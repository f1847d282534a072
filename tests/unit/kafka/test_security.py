from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import TypeAdapter, ValidationError

from penstock.kafka.security import Mtls, Plain, Plaintext, Scram, Security, Tls
from penstock.secret import Secret

CANARY = "canary-40aa"
CA = Path("/ca.pem")
SCRAM_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
TRUST = {"ssl.ca.location": "/ca.pem"}
JAVA_TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"}


def mtls(folder: Path, key_password: Secret | None = None) -> Mtls:
    (folder / "client.pem").write_text("the chain")
    (folder / "client.key").write_text("the key")
    return Mtls(
        ca_file=CA,
        certificate_file=folder / "client.pem",
        key_file=folder / "client.key",
        key_password=key_password,
    )


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        pytest.param(Plaintext(), {"security.protocol": "plaintext"}, id="plaintext"),
        pytest.param(Tls(), {"security.protocol": "ssl"}, id="tls by the system's CAs"),
        pytest.param(Tls(ca_file=CA), {"security.protocol": "ssl", **TRUST}, id="tls"),
        pytest.param(
            Plain(username="orders", password=Secret.of(CANARY), ca_file=CA),
            {
                "security.protocol": "sasl_ssl",
                **TRUST,
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "orders",
                "sasl.password": CANARY,
            },
            id="plain",
        ),
        pytest.param(
            Scram(username="orders", password=Secret.of(CANARY), mechanism="SCRAM-SHA-256"),
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanisms": "SCRAM-SHA-256",
                "sasl.username": "orders",
                "sasl.password": CANARY,
            },
            id="scram",
        ),
    ],
)
def test_a_mechanism_is_put_in_librdkafkas_words(security: Security, expected: dict[str, str]) -> None:
    assert expected == security.librdkafka()


@pytest.mark.parametrize(
    ("security", "expected"),
    [
        pytest.param(Plaintext(), {"security.protocol": "PLAINTEXT"}, id="plaintext"),
        pytest.param(Tls(), {"security.protocol": "SSL"}, id="tls by the system's CAs"),
        pytest.param(Tls(ca_file=CA), {"security.protocol": "SSL", **JAVA_TRUST}, id="tls"),
        pytest.param(
            Plain(username="orders", password=Secret.of(CANARY)),
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": f'{PLAIN_MODULE} required username="orders" password="{CANARY}";',
            },
            id="plain",
        ),
        pytest.param(
            Scram(username='or"ders', password=Secret.of(CANARY), ca_file=CA),
            {
                "security.protocol": "SASL_SSL",
                **JAVA_TRUST,
                "sasl.mechanism": "SCRAM-SHA-512",
                "sasl.jaas.config": f'{SCRAM_MODULE} required username="or\\"ders" password="{CANARY}";',
            },
            id="scram",
        ),
    ],
)
def test_a_mechanism_is_put_in_javas_words(security: Security, expected: dict[str, str]) -> None:
    assert expected == security.java()


def test_a_client_certificate_is_named_to_librdkafka_and_given_to_java(tmp_path: Path) -> None:
    security = mtls(tmp_path)

    assert {
        "security.protocol": "ssl",
        **TRUST,
        "ssl.certificate.location": str(tmp_path / "client.pem"),
        "ssl.key.location": str(tmp_path / "client.key"),
    } == security.librdkafka()
    assert {
        "security.protocol": "SSL",
        **JAVA_TRUST,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "the chain",
        "ssl.keystore.key": "the key",
    } == security.java()


def test_the_password_of_a_key_reaches_both_clients(tmp_path: Path) -> None:
    security = mtls(tmp_path, Secret.of(CANARY))

    assert [CANARY, CANARY] == [settings["ssl.key.password"] for settings in (security.librdkafka(), security.java())]


MAKE: dict[str, Callable[[Path], Security]] = {
    "plain": lambda _folder: Plain(username="orders", password=Secret.of(CANARY)),
    "scram": lambda _folder: Scram(username="orders", password=Secret.of(CANARY)),
    "mtls": lambda folder: mtls(folder, Secret.of(CANARY)),
}


@pytest.mark.parametrize("kind", MAKE)
def test_no_secret_is_in_any_rendering(kind: str, tmp_path: Path) -> None:
    security = MAKE[kind](tmp_path)

    renderings = [repr(security), str(security), repr(security.model_dump()), security.model_dump_json()]

    assert CANARY in str(security.librdkafka())
    assert [] == [text for text in renderings if CANARY in text]


@pytest.mark.parametrize("kind", ["plain", "scram"])
@pytest.mark.parametrize("wrong", [{}, {"username": ""}, {"username": "o", "more": 1}], ids=["none", "empty", "more"])
def test_a_held_secret_is_not_in_the_complaint_about_another_field(kind: str, wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter[Security](Security).validate_python({"type": kind, "password": Secret.of(CANARY), **wrong})

    assert CANARY not in str(caught.value) + repr(caught.value.errors())


@pytest.mark.parametrize("switch", ["verify", "check_hostname", "ssl.endpoint.identification.algorithm"])
@pytest.mark.parametrize("kind", ["tls", "mtls", "plain", "scram"])
def test_no_switch_turns_verification_off(kind: str, switch: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter[Security](Security).validate_python({"type": kind, switch: False})

    assert ("extra_forbidden", switch) in [(each["type"], each["loc"][-1]) for each in caught.value.errors()]
