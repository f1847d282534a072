"""Settings of Spark's own in a pipeline file: a secret among them is named, never written."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from penstock.driver.session import revealed
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
