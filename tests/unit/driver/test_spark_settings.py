"""Settings of Spark's own in a pipeline file: a secret among them is named, never written."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.driver import session
from penstock.driver.session import Starter, death_named, over_the_network, revealed
from penstock.errors import BadInput, SparkDied
from penstock.pipeline.spec import PipelineSpec


def spec_with(base: Path, **settings: str) -> PipelineSpec:
    document = {
        "name": "combat",
        "source": {"topics": ["combat"]},
        "decode": {"type": "json", "schema": "id bigint"},
        "sinks": [{"type": "console"}],
        "spark": settings,
    }
    return PipelineSpec.model_validate(document, context={"base": base})


@pytest.mark.parametrize(
    "name",
    [
        "spark.authenticate.secret",
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.encryption.key",
        "spark.ssl.keyPassword",
        "spark.hadoop.fs.azure.account.key",
        "spark.hadoop.fs.azure.account.key.shop.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.orders.shop.blob.core.windows.net",
        "spark.hadoop.fs.azure.account.oauth2.client.secret.shop.dfs.core.windows.net",
        "spark.hadoop.fs.gs.auth.service.account.private.key",
        "spark.sql.catalog.shop.passphrase",
        "spark.sql.catalog.shop.credential",
        "spark.hadoop.fs.s3a.assumed.role.credentials",
        "spark.datasource.cred",
        "spark.hadoop.hive.server2.pwd",
        "spark.hadoop.ldap.passwd",
        "spark.executorEnv.DB_PASS",
        "spark.hadoop.store.dbPass",
        "spark.hadoop.fs.azure.account.key.onelake.dfs.fabric.microsoft.com",
        "spark.hadoop.fs.azure.account.oauth2.client.secret.onelake.dfs.fabric.microsoft.com",
        "spark.hadoop.fs.azure.account.key.shop.z01.blob.storage.azure.net",
        "spark.executorEnv.AZURE_STORAGE_KEY",
        "spark.executorEnv.AZURE_STORAGE_CONNECTION_STRING",
        "spark.cosmos.masterKey",
        "spark.executorEnv.PGPASS",
        "spark.executorEnv.SSH_KEY",
        "spark.executorEnv.STRIPE_KEY",
        "spark.executorEnv.API_KEY_V2",
        "spark.executorEnv.SECRET_KEY_BASE",
        "spark.executorEnv.ENCRYPTION_KEYS",
        "spark.executorEnv.PASSWORDS",
        "spark.executorEnv.TOKENS",
        "spark.executorEnv.GITHUB_PAT",
        "spark.executorEnv.REDIS_AUTH",
        "spark.executorEnv.DATABASE_URL",
        "spark.executorEnv.KAFKA_SASL_JAAS_CONFIG",
        "spark.hadoop.fs.azure.account.hmacKey",
        "spark.hadoop.parquet.encryption.key.list",
        "spark.sql.catalog.shop.header.Authorization",
    ],
)
def test_a_secret_that_is_written_out_is_refused_and_not_repeated(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValidationError) as caught:
        spec_with(tmp_path, **{name: "canary-71"})

    assert "a secret is not written here: name it as env:NAME or file:PATH" in str(caught.value)
    assert "canary-71" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    [
        "spark.authenticate.secretBitLength",
        "spark.hadoop.fs.s3a.aws.credentials.provider",
        "spark.hadoop.fs.azure.sas.token.provider.type.shop.dfs.core.windows.net",
        "spark.io.encryption.keySizeBits",
        "spark.hadoop.fs.s3a.bypass",
        "spark.sql.compass",
        "spark.hadoop.fs.azure.account.auth.type.shop.dfs.core.windows.net",
        "spark.executorEnv.MAX_TOKENS",
        "spark.executorEnv.PUBLIC_KEY",
        "spark.executorEnv.BYPASS",
        "spark.executorEnv.NODE_PATH",
        "spark.sql.sortKey",
        "spark.ssl.needClientAuth",
    ],
)
def test_a_setting_that_only_speaks_of_secrets_is_written_out(tmp_path: Path, name: str) -> None:
    assert {name: "plain"} == spec_with(tmp_path, **{name: "plain"}).spark


def test_a_secret_that_is_named_is_read_when_spark_starts_and_other_settings_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    monkeypatch.setenv("CLUSTER_SECRET", "from-a-variable")
    settings = {
        "spark.authenticate.secret": "env:CLUSTER_SECRET",
        "spark.ssl.keyPassword": "file:key",
        "spark.authenticate.secretBitLength": "512",
    }
    spec = spec_with(tmp_path, **settings)

    found = revealed(spec.spark)

    assert f"file:{tmp_path / 'key'}" == spec.spark["spark.ssl.keyPassword"]
    assert ["from-a-variable", "from-a-file", "512"] == list(found.values())


@pytest.mark.parametrize("master", ["local", "local[2,4]", "spark://127.0.0.1:7077", "spark://localhost:7077"])
def test_spark_on_this_machine_listens_on_the_loopback_and_encrypts_nothing(master: str) -> None:
    expected = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}

    assert expected == over_the_network(master, {})


@pytest.mark.parametrize("master", ["spark://10.1.2.3:7077", "spark://a.example:7077,b.example:7077", "yarn"])
def test_what_spark_sends_over_a_network_is_encrypted(master: str) -> None:
    assert {"spark.network.crypto.enabled": "true"} == over_the_network(master, {})


def test_without_a_secret_there_is_no_key_to_encrypt_with() -> None:
    assert {} == over_the_network("spark://10.1.2.3:7077", {"spark.authenticate": "False"})


@pytest.mark.parametrize("master", ["yran", "localhost", "local[", "host:7077", "spark://", ""])
def test_a_master_that_spark_cannot_have_is_refused_at_once_with_those_that_there_are(
    tmp_path: Path, master: str
) -> None:
    with pytest.raises(BadInput, match=r"is no master of Spark's\. Nothing ran\. Say local\[\*,4\], spark://host:port"):
        Starter("x", tmp_path, master=master)


@pytest.mark.parametrize(
    "master", ["local", "local[*,4]", "local-cluster[2,1,1024]", "spark://a:1,b:2", "yarn", "k8s://https://a:443"]
)
def test_every_kind_of_master_is_taken(tmp_path: Path, master: str) -> None:
    Starter("x", tmp_path, master=master)


def test_what_kept_spark_from_starting_is_said_and_not_that_its_jvm_was_ended_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(session, "_jvm_ended", lambda _error: "killed by signal 9")

    with pytest.raises(BadInput, match="needs the cluster's secret"), death_named():
        raise BadInput("Spark at spark://a:1 needs the cluster's secret")
    with pytest.raises(SparkDied, match="killed by signal 9"), death_named():
        raise ConnectionError
