# SPDX-License-Identifier: Apache-2.0
"""Why a body came in full: the question that a fleet without savings asks first. A plain object without I/O."""

from collections import OrderedDict

from .request import Incoming

NO_SHIM = "no-shim"
AFTER_RESYNC = "after-resync"
FIRST_CALL = "first-call"
SHIM_CHOSE = "shim-chose"
TOO_LARGE = "too-large-to-hold"
ENCODED = "content-encoding"

_REMEMBERED = 4096


class FullSends:
    """Remembers the latest resyncs, so that the full send which heals one is told from others."""

    def __init__(self) -> None:
        self._resynced: OrderedDict[tuple[str | None, str | None], None] = OrderedDict()

    def resynced(self, incoming: Incoming) -> None:
        self._resynced[incoming.rollout, incoming.delivery] = None
        if len(self._resynced) > _REMEMBERED:
            self._resynced.popitem(last=False)

    def reason(self, incoming: Incoming, *, rollout_is_new: bool) -> str:
        """For a body that is held; one that is not says why itself."""
        if not incoming.speaks_protocol:
            return NO_SHIM
        if self._resynced.pop((incoming.rollout, incoming.delivery), self) is None:
            return AFTER_RESYNC
        return FIRST_CALL if rollout_is_new else SHIM_CHOSE
