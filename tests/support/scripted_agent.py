# SPDX-License-Identifier: Apache-2.0
"""An agent that does what its standard input says, line by line, and reports as JSON lines on its standard output.

``call`` posts to $OPENAI_BASE_URL; ``env NAME``, ``read PATH``, ``write PATH TEXT`` and ``stop`` do what they say;
``exit N`` ends it. So is every signal that ``run`` passes on. Runs on any Python 3, as a program of its own.
"""

import base64
import json
import os
import select
import signal
import sys
import urllib.parse
from http.client import HTTPConnection

REPORTED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGWINCH")
BODY = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'


def report(**fields):
    os.write(1, json.dumps(fields).encode() + b"\n")


def call():
    url = urllib.parse.urlsplit(os.environ["OPENAI_BASE_URL"])
    connection = HTTPConnection(url.hostname, url.port, timeout=30)
    connection.request("POST", url.path + "/chat/completions", BODY, {"Content-Type": "application/json"})
    response = connection.getresponse()
    report(status=response.status, body=response.read().decode())


def do(words):
    if words[0] == "call":
        call()
    elif words[0] == "env":
        report(value=base64.b64encode(os.environb.get(words[1].encode(), b"")).decode())
    elif words[0] == "read":
        with open(os.path.expandvars(words[1]), "rb") as file:
            report(value=base64.b64encode(file.read()).decode())
    elif words[0] == "write":
        with open(os.path.expandvars(words[1]), "w") as file:
            file.write(words[2])
        report(written=words[1])
    elif words[0] == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        report(continued=True)
    elif words[0] == "exit":
        sys.exit(int(words[1]))


def lines():
    """Standard input's lines. Waits for signals: one that comes just before a read must not wait for it."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    signal.set_wakeup_fd(writer)
    pending = b""
    while True:
        ready, _, _ = select.select([0, reader], [], [])
        if reader in ready:
            os.read(reader, 4096)
        if 0 in ready:
            received = os.read(0, 4096)
            if not received:
                return
            *complete, pending = (pending + received).split(b"\n")
            yield from (line.decode() for line in complete)


def main():
    for name in REPORTED:
        signal.signal(getattr(signal, name), lambda caught, _: report(signal=signal.Signals(caught).name))
    commands = lines()
    report(started=os.getpid(), arguments=sys.argv[1:])
    for line in commands:
        do(line.split())


main()
