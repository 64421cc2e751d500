# SPDX-License-Identifier: Apache-2.0
"""Seeded faults: runs in which one thing goes wrong on purpose, to show that the comparison can fail.

Each mutant names the finding that it must be caught by. They are test equipment, no part of shim or server.
"""

from .bodies import (
    ChangeByte,
    ChangeEnvelope,
    DropMessage,
    ReorderMessages,
    RepeatMessage,
    ReserialiseBody,
    RewriteArguments,
)
from .calls import (
    ChangeStatus,
    EndCut,
    LeakHeader,
    LoseFinalEvent,
    LoseHeader,
    RepeatDelivery,
    SwapConversations,
)
from .mutant import Mutant

MUTANTS: dict[str, type[Mutant]] = {
    mutant.name: mutant
    for mutant in (
        Mutant,
        DropMessage,
        RepeatMessage,
        ReorderMessages,
        ChangeByte,
        RewriteArguments,
        ReserialiseBody,
        ChangeEnvelope,
        SwapConversations,
        RepeatDelivery,
        LoseHeader,
        LeakHeader,
        EndCut,
        ChangeStatus,
        LoseFinalEvent,
    )
}

__all__ = ["MUTANTS", "Mutant"]
