# SPDX-License-Identifier: Apache-2.0
"""Why a body came in full: the question that a fleet without savings asks first. The shim knows, and says so."""

from history_delta_protocol import wire

from . import headers
from .request import Incoming

NO_SHIM = "no-shim"
UNSTATED = "unstated"
# Where this server sees it for itself.
TOO_LARGE = "too-large"
ENCODED = "content-encoding"

_HEADER = wire.FULL_HEADER.lower().encode("ascii")


def stated_reason(incoming: Incoming) -> str:
    """What the shim gave as its reason. Only known ones are taken over: they become labels of a metric."""
    if not incoming.speaks_protocol:
        return NO_SHIM
    stated = headers.values(incoming.headers, _HEADER)
    reason = stated[0].decode("latin-1") if stated else UNSTATED
    return reason if reason in wire.FULL_REASONS else UNSTATED
