"""The loop of a Spark process, and what waits for it."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from odradek.client.aio.world import World
from odradek.client.spark import register
from odradek.client.spark.data_source import OdradekSource
from odradek.client.spark.process import Process


def test_a_reader_that_is_interrupted_while_it_waits_is_closed_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What it waited for had not ended yet: the interrupt became a RuntimeError, and the fetch ahead was left. Then
    the end was looked for every millisecond."""
    loop = asyncio.new_event_loop()
    timers: list[float] = []
    call_at = loop.call_at

    def count(when: float, *more: Any, **named: Any) -> asyncio.TimerHandle:
        timers.append(when)
        return call_at(when, *more, **named)

    monkeypatch.setattr(loop, "call_at", count)
    closed: list[bool] = []
    interrupts = False

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        nonlocal interrupts
        task = loop.create_task(work)
        if interrupts:  # as LoopThread.run: cancelled, and not waited for
            interrupts = False
            loop.run_until_complete(asyncio.sleep(0))
            task.cancel()
            raise KeyboardInterrupt
        return loop.run_until_complete(task)

    async def items() -> AsyncGenerator[int, None]:
        try:
            yield 1
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    reading = Process(run, World()).iterate(items())
    assert next(reading) == 1
    interrupts = True
    with pytest.raises(KeyboardInterrupt):
        next(reading)
    assert closed == [True] and not timers
    loop.close()


def test_a_session_of_spark_connect_knows_the_format_too() -> None:
    """It has no context: registering ended with JVM_ATTRIBUTE_NOT_SUPPORTED."""
    registered: list[type] = []

    class Connected:
        dataSource = SimpleNamespace(register=registered.append)  # noqa: N815 (Spark's name)

        @property
        def sparkContext(self) -> Any:  # noqa: N802 (Spark's name)
            raise PySparkAttributeError(
                errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": "sparkContext"}
            )

    register(cast(SparkSession, Connected()))
    assert registered == [OdradekSource]
