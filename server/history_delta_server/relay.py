# SPDX-License-Identifier: Apache-2.0
"""From a Call to one agent: the model's response as it comes, ended only where the model ended it."""

from collections.abc import Sequence

from history_delta_protocol.dialect import Dialect

from . import errors
from .agent_response import AgentResponse
from .call import Reader, State
from .headers import Header


async def relay(reader: Reader, response: AgentResponse, dialect: Dialect | None, own: Sequence[Header]) -> int:
    """Write the whole response; gives its status. Where the model gave none, it is a 502 of ours."""
    call = reader.call
    head = await reader.head()
    if head is None:
        if call.state is State.UNREACHABLE:
            refused = errors.unreachable(dialect, call.failure)
        else:
            refused = errors.failed(dialect, f"the model server {call.upstream} {call.failure}")
        await response.answer(refused.answer, own)
        return refused.answer.status
    response.start(head, own, reader.take())
    async for data in reader:
        await response.feed(data)
    if call.state is State.COMPLETE:
        response.end()
    else:
        await response.cut()
    return head.status
