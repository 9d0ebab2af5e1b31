"""The child process that compacts one log beside the broker: what is asked comes on stdin, answers go to stdout."""

import sys
from collections.abc import Iterator

from odradek.broker.log.compaction.messages import Failed, Request, encode_answer
from odradek.broker.log.compaction.rewrite import Compactor, Moved
from odradek.protocol.errors import KafkaError, MalformedMessage
from odradek.world.child_process import main
from odradek.world.files import Files


def work(files: Files, request: bytes, moved: Moved) -> Iterator[bytes]:
    """Answers, one line each; the last is Finished or Failed."""
    asked = Request.decode(request)
    try:
        for answer in Compactor(files, asked, moved).run():
            yield encode_answer(answer)
    except OSError as error:
        yield encode_answer(Failed(error.errno or 0, f"{error}"))
    except (MalformedMessage, KafkaError) as error:
        yield encode_answer(Failed(0, f"{asked.directory}: {error}"))


if __name__ == "__main__":
    sys.exit(main(work))
