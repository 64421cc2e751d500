# SPDX-License-Identifier: Apache-2.0
"""The published cases: numbered checks of any server or any shim that speaks the protocol, each naming its MUST."""

import importlib
import pkgutil


def load(*kinds: str) -> None:
    """Have every module of cases of these kinds (all, where none is named) put its own into the registry."""
    for kind in kinds or ("server", "shim"):
        package = importlib.import_module(f"{__name__}.{kind}")
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{package.__name__}.{module.name}")
