# SPDX-License-Identifier: Apache-2.0
"""What a mutant can do to a request and its response. The base does nothing: a run through it must have no finding."""

from collections.abc import Sequence
from dataclasses import dataclass

from history_delta_protocol.dialect import dialect_of

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True)
class Request:
    method: bytes
    target: bytes
    headers: Headers
    body: bytes

    @property
    def is_model_call(self) -> bool:
        return self.method == b"POST" and dialect_of(self.target.decode("latin-1")) is not None


class Mutant:
    """One fault, committed once in a run. ``finding`` is the name by which the comparison must catch it."""

    name = "none"
    finding = ""
    description = "everything passes as it is"

    def __init__(self) -> None:
        self.committed = False

    async def requests(self, request: Request) -> Sequence[Request]:
        """What is sent in place of this request, one after the other; the last one's response is relayed."""
        return (request,)

    def status(self, status: int) -> int:
        return status

    def response_data(self, data: bytes) -> bytes:
        """A piece of a response's body, as it comes."""
        return data

    def ends_what_is_cut(self) -> bool:
        """Whether a response that breaks is given the end that it has not."""
        return False


class BodyMutant(Mutant):
    """A fault in the first body in which it can be committed."""

    def changed(self, body: bytes) -> bytes | None:
        """The body with the fault; None where there is nothing that it can befall."""
        raise NotImplementedError

    async def requests(self, request: Request) -> Sequence[Request]:
        body = self.changed(request.body) if request.is_model_call and not self.committed else None
        if body is None:
            return (request,)
        self.committed = True
        return (Request(request.method, request.target, request.headers, body),)
