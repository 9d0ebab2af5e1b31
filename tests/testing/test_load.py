"""What the tests ask of librdkafka's admin while a cluster changes under it."""

from concurrent.futures import Future
from typing import cast

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from odradek.testing.load import create_topic

TOPIC = NewTopic("t", 1, 1)


class Scripted:
    """An AdminClient whose attempts to create a topic end as they are listed: by an error's code, or None."""

    def __init__(self, *codes: int | None) -> None:
        self.codes = list(codes)

    def create_topics(self, topics: list[NewTopic]) -> dict[str, "Future[None]"]:
        made: Future[None] = Future()
        code = self.codes.pop(0)
        if code is None:
            made.set_result(None)
        else:
            made.set_exception(KafkaException(KafkaError(code)))
        return {topic.topic: made for topic in topics}


@pytest.mark.parametrize(
    "codes",
    [
        (KafkaError.NOT_CONTROLLER, None),
        (KafkaError.REQUEST_TIMED_OUT, KafkaError.TOPIC_ALREADY_EXISTS),
    ],
    ids=["the controller has moved", "an answer was lost"],
)
def test_a_topic_is_asked_for_again(codes: tuple[int | None, ...]) -> None:
    admin = Scripted(*codes)
    create_topic(cast(AdminClient, admin), TOPIC)
    assert not admin.codes


@pytest.mark.parametrize("code", [KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.INVALID_REPLICATION_FACTOR])
def test_what_does_not_pass_is_raised_at_once(code: int) -> None:
    admin = Scripted(code, None)
    with pytest.raises(KafkaException) as refused:
        create_topic(cast(AdminClient, admin), TOPIC)
    assert (refused.value.args[0].code(), admin.codes) == (code, [None])
