# SPDX-License-Identifier: Apache-2.0
"""What only some machines have: a test without it is skipped there, but fails in CI, which must have everything."""

import os

import pytest


def needs(present: object, what: str) -> None:
    """Skip, or under CI fail, unless ``present``."""
    if present:
        return
    if os.environ.get("CI"):
        pytest.fail(f"CI must have {what}")
    pytest.skip(f"this machine has no {what}")
