import pytest

from penstock.kafka.acls import Acl, Operation, Resource


@pytest.mark.parametrize(
    ("operation", "resource", "name", "may"),
    [
        ("write", "topic", "*", True),
        ("all", "topic", "conn*", True),
        ("write", "topic", "ours-configs", True),
        ("write", "topic", "penstock.dead-*", True),
        ("write", "topic", "orders.dead", True),
        ("write", "topic", "orders*", False),
        ("write", "topic", "connected", False),
        ("read", "topic", "*", False),
        ("write", "transactional_id", "*", False),
    ],
)
def test_a_permission_to_write_to_connects_or_our_own_topics_is_known(
    operation: Operation, resource: Resource, name: str, *, may: bool
) -> None:
    acl = Acl(user="shop", operation=operation, resource=resource, name=name)

    assert may is acl.lets_write_to_own("ours")
