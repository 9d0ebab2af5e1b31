"""The adapter stands on some private parts of kazoo, and says so when they are gone."""

from types import SimpleNamespace

import pytest
from kazoo.client import KazooClient

from odradek.zk_schema.kazoo_store.client import (
    PARTS_OF_ITS_CONNECTION,
    PRIVATE_PARTS,
    UnknownKazoo,
    check_private_parts,
)


def test_the_installed_kazoo_has_them() -> None:
    check_private_parts(KazooClient())


@pytest.mark.parametrize("missing", [*PRIVATE_PARTS, *PARTS_OF_ITS_CONNECTION])
def test_another_kazoo_is_refused_with_one_line(missing: str) -> None:
    connection = SimpleNamespace(**{name: None for name in PARTS_OF_ITS_CONNECTION if name != missing})
    client = SimpleNamespace(**dict.fromkeys(PRIVATE_PARTS) | {"_connection": connection})
    if missing in PRIVATE_PARTS:
        delattr(client, missing)
    with pytest.raises(UnknownKazoo) as refused:
        check_private_parts(client)
    assert f".{missing}: kazoo 2.10 or 2.11 is needed" in str(refused.value)
