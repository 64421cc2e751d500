# SPDX-License-Identifier: Apache-2.0
"""The shim as it ships: one file, built from the sources at hand."""

import importlib.util
from pathlib import Path

SHIM = Path(__file__).parents[2] / "shim"


def build_shim(folder: Path) -> Path:
    """Build ``history_delta_shim.pyz`` into ``folder`` and return its path."""
    spec = importlib.util.spec_from_file_location("shim_build", SHIM / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    target = folder / "history_delta_shim.pyz"
    module.build(str(target))
    return target
