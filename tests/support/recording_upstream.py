# SPDX-License-Identifier: Apache-2.0
"""A model server for tests of the way to it: records every request and answers each dialect with one fixed message."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ANSWER = "All done."


@dataclass
class RecordedRequest:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class RecordingUpstream:
    origin: str
    requests: list[RecordedRequest] = field(default_factory=list)

    def posts(self) -> list[RecordedRequest]:
        return [request for request in self.requests if request.method == "POST"]


@contextmanager
def recording_upstream() -> Iterator[RecordingUpstream]:
    recorded = RecordingUpstream("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self._record(self.rfile.read(int(self.headers.get("Content-Length", 0))))
            self._answer(200, "text/event-stream", _answer_to(self.path))

        def do_GET(self) -> None:
            self._record(b"")
            self._answer(404, "application/json", b'{"error":{"message":"not found"}}')

        def _record(self, body: bytes) -> None:
            recorded.requests.append(RecordedRequest(self.command, self.path, dict(self.headers.items()), body))

        def _answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    recorded.origin = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield recorded
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _answer_to(path: str) -> bytes:
    if path.partition("?")[0].endswith("/responses"):
        return _responses_stream()
    return _chat_stream()


def _chat_stream() -> bytes:
    def chunk(delta: dict[str, str], reason: str | None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        body = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        return f"data: {json.dumps(body)}\n\n"

    stream = chunk({"role": "assistant", "content": ANSWER}, None) + chunk({}, "stop") + "data: [DONE]\n\n"
    return stream.encode()


def _responses_stream() -> bytes:
    text = {"type": "output_text", "text": ANSWER, "annotations": []}
    item = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [text]}
    usage = {
        "input_tokens": 1,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": 1,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 2,
    }
    response = {"id": "r1", "object": "response", "status": "completed", "output": [item], "usage": usage}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()
