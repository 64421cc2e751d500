# SPDX-License-Identifier: Apache-2.0
"""Socket options for both sides: an optimisation each, so that one which fails is left out and never fails a call."""

import asyncio
import logging
import socket

_AFTER_SECONDS = 30
_EVERY_SECONDS = 15

_logger = logging.getLogger(__name__)
_told: set[str] = set()


def probe_when_silent(transport: asyncio.BaseTransport) -> None:
    """A model may think for minutes: a host or sandbox that vanishes meanwhile is noticed within two of them."""
    sock = transport.get_extra_info("socket")
    for level, name, value in (
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
        (socket.IPPROTO_TCP, "TCP_NODELAY", 1),
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _AFTER_SECONDS),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", _EVERY_SECONDS),
    ):
        try:
            sock.setsockopt(level, getattr(socket, name), value)
        except (OSError, AttributeError):
            _tell_once(name)


def _tell_once(name: str) -> None:
    if name not in _told:
        _told.add(name)
        _logger.warning(f"socket option {name} cannot be set here")
