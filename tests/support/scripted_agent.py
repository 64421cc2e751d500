# SPDX-License-Identifier: Apache-2.0
"""An agent that does what its standard input says, line by line, and reports as JSON lines on its standard output.

``call`` posts to $OPENAI_BASE_URL; ``env NAME``, ``read PATH``, ``write PATH TEXT`` and ``stop`` do what they say;
``exit N`` ends it. So is every signal that ``run`` passes on. Runs on any Python 3, as a program of its own.
"""

import base64
import json
import os
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


def main():
    for number in set(signal.Signals) - {
        signal.SIGKILL,
        signal.SIGSTOP,
        signal.SIGTSTP,
        signal.SIGCHLD,
        signal.SIGCONT,
    }:
        if number < signal.SIGRTMIN:
            signal.signal(number, lambda caught, _: report(signal=signal.Signals(caught).name))
    report(started=os.getpid(), arguments=sys.argv[1:])
    for line in iter(sys.stdin.readline, ""):
        do(line.split())


main()
