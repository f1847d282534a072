import pytest

from penstock.lineage.extract.names import location


@pytest.mark.parametrize(
    ("namespace", "expected"),
    [
        ("kafka://b:9092,a:9092", {"kafka://a:9092", "kafka://b:9092"}),
        ("postgres://user:secret@h:5432", {"postgres://h:5432"}),
        ("hive://[::1]:10000", {"hive://[::1]:10000"}),
        ("arn:aws:glue:eu:account", {"arn://aws:glue:eu:account"}),
        ("jdbc:sqlserver://h;user=sa;password=secret", {"sqlserver://h"}),
        ("jdbc:postgresql://b:5432,a:5432/shop?user=u", {"postgresql://a:5432", "postgresql://b:5432"}),
        ("jdbc:mysql:replication://u:secret@b:3306,a:3306/shop", {"mysql://a:3306", "mysql://b:3306"}),
        ("jdbc:oracle:thin:@h:1521:shop", {"jdbc://h:1521:shop"}),
    ],
)
def test_a_location_has_the_addresses_of_its_hosts(namespace: str, expected: set[str]) -> None:
    assert expected == location(namespace).addresses


@pytest.mark.parametrize(
    "namespace",
    ["mongodb://u:se,secret@h", "postgres://u:secret#w@h", "s3://k:secret/more@bucket", "db://h?key=secret"],
)
def test_a_password_with_odd_characters_is_not_taken_for_a_host(namespace: str) -> None:
    assert not any("secret" in each for each in location(namespace).addresses)
