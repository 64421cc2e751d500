# SPDX-License-Identifier: Apache-2.0
"""Shims with one fault each, and the numbers of the published cases that must catch it.

A fault is Python that is run in the shim's process before its command line: it replaces one function of the shim.
"""

import shlex
from typing import NamedTuple

from .shim_server import shim_command


class Broken(NamedTuple):
    """``cases`` are those that must fail, each by itself."""

    cases: tuple[str, ...]
    fault: str

    @property
    def command(self) -> str:
        words = [*shim_command(before=self.fault), "serve", "--upstream", "{upstream}", "--listen", "{listen}"]
        return shlex.join(words)


_CORE = "import history_delta_shim.core as core\n"
_EXCHANGE = "import history_delta_shim.exchange as exchange\nfrom history_delta_shim.connection import Broken\n"

BROKEN = {
    # What it asks.
    "asks before every call": Broken(
        ("1.6", "1.27"), "from history_delta_shim.peer import Peer\nPeer.ask_now = lambda self: True\n"
    ),
    "waits for capabilities for as long as they take": Broken(
        ("1.23", "1.24"), "import history_delta_shim.probe as probe\nprobe.SECONDS = 30.0\n"
    ),
    "reads all of an answer": Broken(
        ("1.18", "1.22"), "import history_delta_shim.probe as probe\nprobe.MAX_ANSWER_BYTES = 1 << 40\n"
    ),
    "sends frames to a server that does not speak": Broken(
        ("8.2", "7.7"),
        "from history_delta_shim.peer import Peer\n"
        "silent = Peer.silent\n"
        "def keep_on(self):\n    silent(self)\n    self.speaking = True\n"
        "Peer.silent = keep_on\n",
    ),
    "asks on the path with the rollout prefix": Broken(
        ("1.1",),
        _CORE + "core.capabilities_path = lambda target: target.rpartition('/')[0] + '/.well-known/history-delta'\n",
    ),
    # What it names.
    "mints one delivery id for all calls": Broken(
        ("2.1", "2.5", "15.2"),
        _CORE + "init = core.Core.__init__\n"
        "core.Core.__init__ = lambda self, *a, **k: init(self, *a, **dict(k, new_id=lambda: '0' * 32))\n",
    ),
    "names no rollout": Broken(
        ("2.1",),
        _CORE + "identify = core.ModelCall.identify\n"
        "core.ModelCall.identify = lambda self, delivery, rollout: identify(self, delivery, None)\n",
    ),
    "takes what one rollout holds for another's": Broken(
        ("2.8",),
        _CORE + "identified = core.Core._identified\n"
        "def alike(self, *a):\n"
        "    call, dialect = identified(self, *a)\n"
        "    call.scope = call.scope and (call.scope[0], '', '')\n"
        "    return call, dialect\n"
        "core.Core._identified = alike\n",
    ),
    "passes the protocol's headers on": Broken(
        ("2.6", "2.7", "12.4"), "import history_delta_shim.headers as h\nh.strip_own = lambda headers: list(headers)\n"
    ),
    # What it sends.
    "serialises bodies anew": Broken(
        ("3.6", "9.1", "10.7"),
        "import json\n" + _CORE + "start = core.Core.start\n"
        "def anew(self, method, target, headers, body):\n"
        "    try:\n        body = json.dumps(json.loads(body)).encode()\n"
        "    except (ValueError, RecursionError):\n        pass\n"
        "    return start(self, method, target, headers, body)\n"
        "core.Core.start = anew\n",
    ),
    "sends header names in lower case": Broken(
        ("3.1", "3.7"),
        "import history_delta_shim.http1 as http1\nhead = http1.request_head\n"
        "http1.request_head = lambda method, target, headers:"
        " head(method, target, [(n.lower(), v) for n, v in headers])\n",
    ),
    "sends a header once": Broken(
        ("3.1", "3.7"),
        "import history_delta_shim.http1 as http1\nhead = http1.request_head\n"
        "http1.request_head = lambda method, target, headers:"
        " head(method, target, list({n.lower(): (n, v) for n, v in headers}.values()))\n",
    ),
    "puts the media type at the end": Broken(
        ("4.7",),
        _CORE + "core._with_content_type = lambda headers, media_type:"
        " [h for h in headers if h[0].lower() != 'content-type'] + [('Content-Type', media_type)]\n",
    ),
    "compresses unasked": Broken(
        ("1.5", "4.10"),
        "import history_delta_shim.peer as peer\nC = peer.Capabilities\n"
        "peer.Capabilities = lambda encodings=(), *a: C(frozenset(['gzip']), *a)\n",
    ),
    "sends two gzip members": Broken(
        ("4.11",),
        "import gzip\nfrom history_delta_protocol import encoding\npack = encoding.gzip_if_smaller\n"
        "encoding.gzip_if_smaller = lambda data: gzip.compress(data) + gzip.compress(b'')\n",
    ),
    "knows no limit of the server": Broken(
        ("4.13", "4.14", "4.15", "4.16", "4.17"), _CORE + "core._within = lambda *a: True\n"
    ),
    "frames what is compressed": Broken(
        ("5.1",),
        _CORE + "values = core.values\n"
        "core.values = lambda headers, name: [] if name == 'content-encoding' else values(headers, name)\n",
    ),
    # What it builds on.
    "builds on what nobody acknowledged": Broken(
        ("6.1", "6.2", "6.4"),
        _CORE + "spoken = core.Core.spoken\nanswered = core.ModelCall.answered\n"
        "def believe(self, status, headers):\n"
        "    decision = answered(self, status, headers)\n"
        "    if self.taken is None:\n        self._take_apart_late()\n"
        "    if self.taken is not None:\n        self._core.hold(self.taken)\n"
        "    return decision\n"
        "core.ModelCall.answered = believe\n",
    ),
    "forgets nothing that was refused": Broken(("7.17",), _CORE + "core.Core.forget = lambda self, taken: None\n"),
    # What it does with a refusal.
    "passes a resync on": Broken(
        ("7.1", "7.8", "7.11"), _CORE + "core.ModelCall._resynced = lambda self, reason: core.RELAY\n"
    ),
    "sends the delivery again under another id": Broken(
        ("7.1", "8.1"),
        _CORE + "resend = core.ModelCall._resend\n"
        "def renamed(self, reason):\n"
        "    decision = resend(self, reason)\n"
        "    self.headers = [(n, 'f' * 32 if n == 'History-Delta-Delivery' else v) for n, v in self.headers]\n"
        "    return decision\n"
        "core.ModelCall._resend = renamed\n",
    ),
    "takes every 409 for a resync": Broken(
        ("7.12", "7.13"),
        _CORE + "answered = core.ModelCall.answered\n"
        "core.ModelCall.answered = lambda self, status, headers:"
        " self._resynced('x') if status == 409 else answered(self, status, headers)\n",
    ),
    "never gives frames up": Broken(
        ("8.8", "8.9", "8.11"),
        "from history_delta_shim.conversations import Health\nHealth.suspended = lambda self: False\n",
    ),
    "goes on with frames after a failure": Broken(
        ("8.5", "8.7"), _CORE + "core.Core.failed = lambda self, health: None\n"
    ),
    # What it repeats.
    "repeats what broke": Broken(
        ("8.7", "11.1", "11.2", "11.3", "11.4", "11.5", "11.6"),
        _EXCHANGE + "send = exchange.Exchange._send\n"
        "def again(self, call):\n"
        "    try:\n        return send(self, call)\n"
        "    except Broken:\n        return send(self, call)\n"
        "exchange.Exchange._send = again\n",
    ),
    "answers 502 where nobody listens": Broken(
        ("11.10", "11.13"),
        "from history_delta_shim import answers\nanswers.unreachable = lambda dialect, why: (502, [], b'{}')\n",
    ),
    # What it passes on of a response.
    "passes responses on as a whole": Broken(
        ("12.1", "12.2", "15.4"),
        _EXCHANGE + "from history_delta_shim import http1, relay as r\n"
        "def whole(agent, connection, head, framing):\n"
        "    out, event = [head], None\n"
        "    while not isinstance(event, http1.End):\n"
        "        event = connection.next_event()\n"
        "        out.append(r._framed(event, framing.chunked))\n"
        "    agent.send(b''.join(out))\n"
        "exchange.relay = whole\n",
    ),
    "cancels as soon as the agent leaves": Broken(
        ("12.8",), "import history_delta_shim.forwarding as f\nf.FINISH_SECONDS = 0.0\n"
    ),
    "never cancels": Broken(
        ("12.9",), "import history_delta_shim.forwarding as f\nf.FINISH_SECONDS, f.FINISH_BYTES = 600.0, 1 << 40\n"
    ),
    "ends a stream that was cut": Broken(
        ("13.1", "13.2", "13.3", "13.8"),
        _EXCHANGE + "relay = exchange.relay\n"
        "def ended(agent, *a):\n"
        "    try:\n        relay(agent, *a)\n"
        "    except Broken:\n        agent.send(b'0\\r\\n\\r\\n')\n"
        "exchange.relay = ended\n",
    ),
    "resets where it should close": Broken(
        ("13.1", "13.9"),
        "from history_delta_shim.agent_connection import AgentConnection\nfrom history_delta_shim import sockets\n"
        "AgentConnection.cut = lambda self, until_close: sockets.reset(self._socket)\n",
    ),
    "closes where it should reset": Broken(
        ("13.11",),
        "from history_delta_shim.agent_connection import AgentConnection\ncut = AgentConnection.cut\n"
        "AgentConnection.cut = lambda self, until_close: cut(self, False)\n",
    ),
    # What it takes for one request.
    "believes chunks rather than a length": Broken(
        ("14.1", "14.2"),
        "from history_delta_shim import http1, http1_body\nis_chunked = http1.is_chunked\n"
        "def lenient(head):\n"
        "    lines = [h for h in head.headers if h[0].lower() != 'content-length']\n"
        "    chunked = is_chunked(head._replace(headers=lines))\n"
        "    if chunked:\n        head.headers[:] = lines\n"
        "    return chunked\n"
        "http1.is_chunked = lenient\n",
    ),
    "believes the first of several lengths": Broken(
        ("14.3", "14.4"),
        "from history_delta_shim import http1\n"
        "http1.content_length = lambda head: int((http1.values(head.headers, 'content-length') or ['0'])[0])\n",
    ),
}
