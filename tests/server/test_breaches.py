# SPDX-License-Identifier: Apache-2.0
import errno

import pytest
from aiohttp import http_exceptions as http
from history_delta_server.breaches import Breach, said

SECRET = "Bearer secret"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (http.TransferEncodingError(SECRET), "a broken chunk"),
        (http.LineTooLong(SECRET.encode(), 10), "a line that is too long"),
        (http.InvalidHeader(SECRET), "a malformed header field"),
        (http.BadHttpMethod(SECRET), "a malformed first line"),
        (http.BadHttpMessage(SECRET), "a malformed head or chunk"),
        (ValueError(SECRET), "what cannot be read"),
        (OSError(errno.ECONNRESET, "Connection reset\nby peer"), "Connection reset by peer"),
        (Breach("a second response"), "a second response"),
        (None, "no more data"),
    ],
)
def test_a_breach_is_told_in_words_that_quote_nothing(error: BaseException | None, words: str) -> None:
    assert said(error) == words


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 200 OK\r\nX-Secret : model output\r\n\r\n",
        b"model output\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nmodel output\r\n",
        b"HTTP/1.1 200 OK\r\nX: model output\0\r\n\r\n",
    ],
)
async def test_no_model_output_gets_into_an_error_or_the_log(start_model, start_gateway, response: bytes) -> None:
    async def answer(exchange) -> None:
        await exchange.write(response)

    gateway = await start_gateway(await start_model(answer))
    answered = await gateway.post()
    await gateway.until(lambda: gateway.log("call"))
    assert "sent what is not HTTP/1.1: a " in gateway.log("call")[0]["failure"]
    assert b"output" not in answered.body
    assert "output" not in gateway._log.getvalue()


async def test_nothing_of_a_request_that_is_refused_comes_back_or_is_logged(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    agent = await gateway.connect()
    await agent.send(b"GET / HTTP/1.1\r\nAuthorization : Bearer secret\r\n\r\n")
    answered = await agent.receive()
    assert answered.status == 400
    assert b"secret" not in answered.body
    assert "secret" not in gateway._log.getvalue()
