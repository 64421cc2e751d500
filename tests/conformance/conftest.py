# SPDX-License-Identifier: Apache-2.0
"""What the conformance tests share."""

import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from history_delta_conformance.scripted_model import Recorder, ScriptedModel, load_scenario

StartModel = Callable[..., Any]


@pytest.fixture
async def start_model() -> AsyncIterator[StartModel]:
    """Start scripted models: ``await start_model("tool-use")``; they stop with the test."""
    async with AsyncExitStack() as stack:

        async def start(scenario: str = "hello", recorder: Recorder | None = None, **options: Any) -> ScriptedModel:
            return await stack.enter_async_context(ScriptedModel(load_scenario(scenario), recorder, **options))

        yield start


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """Whether a process that was told to stop is dead, or dies within a moment."""

    def is_gone(pid: int) -> bool:
        try:
            process = os.pidfd_open(pid)
        except ProcessLookupError:
            return True
        dead, _, _ = select.select([process], [], [], 10)
        os.close(process)
        return bool(dead)

    return is_gone


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session
