# SPDX-License-Identifier: Apache-2.0
"""The loop: ask the model, print what it says, do what it calls for, ask again, until it calls for nothing."""

import argparse
import http.client
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from .chat import ChatConversation
from .history import BrokenStream, Call, Conversation, Json
from .messages import MessagesConversation
from .responses import ResponsesConversation
from .tools import run_tool

_DIALECTS: dict[str, type[Conversation]] = {
    "chat": ChatConversation,
    "responses": ResponsesConversation,
    "messages": MessagesConversation,
}
_MAX_CALLS = 60
_MODEL_TIMEOUT = 120.0


def main() -> int:
    """Exit code 0 if the model ended the task; 1, with one line on stderr, if anything went wrong."""
    options = _parser().parse_args()
    conversation = _DIALECTS[options.dialect](options.model, options.prompt)
    try:
        return _work(Endpoint(options.base_url), conversation, Path.cwd())
    except (OSError, http.client.HTTPException, BrokenStream, ValueError, LookupError) as error:
        print(f"built-in agent: {error!r}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("builtin-agent", description="A tiny agent; works in the current folder")
    parser.add_argument("--base-url", required=True, help="with the API's version, such as http://127.0.0.1:8000/v1")
    parser.add_argument("--dialect", choices=list(_DIALECTS), default="chat")
    parser.add_argument("--model", default="mock-model")
    parser.add_argument("prompt")
    return parser


def _work(endpoint: "Endpoint", conversation: Conversation, workspace: Path) -> int:
    for _ in range(_MAX_CALLS):
        answer = conversation.take_answer(endpoint.events(conversation))
        print(answer.text, flush=True)
        if not answer.calls:
            return 0
        conversation.add_results([(call, _do(call, workspace)) for call in answer.calls])
    print(f"built-in agent: not done after {_MAX_CALLS} calls", file=sys.stderr)
    return 1


def _do(call: Call, workspace: Path) -> str:
    return run_tool(call.name, json.loads(call.arguments), workspace)


class Endpoint:
    """A model's base URL, and one connection to it that is kept for the next call."""

    def __init__(self, base_url: str) -> None:
        parts = urlsplit(base_url)
        self._base_path = parts.path.rstrip("/")
        self._connection = http.client.HTTPConnection(parts.netloc, timeout=_MODEL_TIMEOUT)

    def events(self, conversation: Conversation) -> Iterator[Json]:
        """Send the history and yield the JSON data of the stream's events as they come."""
        body = json.dumps(conversation.request(), ensure_ascii=False, separators=(",", ":"))
        headers = {"Content-Type": "application/json", "Authorization": "Bearer EMPTY", **conversation.headers}
        data = body.encode(errors="surrogatepass")
        self._connection.request("POST", self._base_path + conversation.path, data, headers)
        response = self._connection.getresponse()
        if response.status != http.HTTPStatus.OK:
            raise ValueError(f"status {response.status}: {response.read(1000).decode(errors='replace')}")
        for line in response:
            if line.startswith(b"data: ") and not line.startswith(b"data: [DONE]"):
                yield json.loads(line.removeprefix(b"data: "))


if __name__ == "__main__":
    sys.exit(main())
