"""Error codes as people read them."""

import json

from odradek.protocol.errors import ErrorCode


def test_a_code_is_written_by_its_name_and_sent_as_its_number() -> None:
    code = ErrorCode.NOT_CONTROLLER
    assert f"{code}" == "%s" % code == "NOT_CONTROLLER"  # noqa: UP031 - as a log line does
    assert json.dumps(code) == f"{code:d}" == "41"
