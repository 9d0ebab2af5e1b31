"""Requests that wait for the controller: they take their turn in its queue, as events do, and are answered once."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from odradek.controller.active_controller import ActiveController
from odradek.controller.controller_store import ControllerMoved
from odradek.protocol.errors import ErrorCode, KafkaError

T = TypeVar("T")


class Call(Generic[T]):
    """A request that waits for its turn; whoever asked awaits `answer`."""

    def __init__(self, work: Callable[[ActiveController], Awaitable[T]], name: str) -> None:
        """`name` is the request's name, for the journal."""
        self.work, self.name = work, name
        self.answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def refuse(self, error: KafkaError) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)

    async def carry_out(self, active: ActiveController) -> None:
        """Do the work and answer in any case: NOT_CONTROLLER when ControllerMoved is raised or the controller stops.

        An unforeseen exception is raised again, but first answered with UNKNOWN_SERVER_ERROR: after NOT_CONTROLLER the
        client would take its request to the next controller, and then to the one after it.
        """
        try:
            result = await self.work(active)
        except KafkaError as error:
            self.refuse(error)
        except ControllerMoved:
            raise
        except Exception as error:
            self.refuse(KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the controller failed: {type(error).__name__}"))
            raise
        else:
            if not self.answer.done():
                self.answer.set_result(result)
        finally:
            self.refuse(not_controller())


def not_controller() -> KafkaError:
    return KafkaError(ErrorCode.NOT_CONTROLLER, "this broker is not the controller")
