from penstock.broker.quotas import Quota, parse

SAID = """\
Quota configs for the default user-principal are request_percentage=50.0
Quota configs for user-principal 'ann' are consumer_byte_rate=2000000.0, producer_byte_rate=1.0E9
Quota configs for user-principal 'an' are '<b>' are producer_byte_rate=1024.0
Quota configs for user-principal 'bob' are controller_mutation_rate=5.0
SCRAM credential configs for user-principal 'ann' are SCRAM-SHA-512=iterations=8192
"""


def test_what_kafkas_tool_says_is_read_whatever_users_are_called() -> None:
    found = [
        Quota(user=None, request_percent=50),
        Quota(user="ann", producer_bytes_per_s=1e9, consumer_bytes_per_s=2e6),
        Quota(user="an' are '<b>", producer_bytes_per_s=1024),
        Quota(user="bob"),
    ]

    assert found == parse(SAID)
