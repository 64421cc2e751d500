# SPDX-License-Identifier: Apache-2.0
"""Records what a Python agent gives its httpx client to send, above any transport, and reads the record.

With this folder first on PYTHONPATH and ``HISTORY_DELTA_RECORD_HTTPX=FILE``, every Python that starts runs the
``sitecustomize`` in it. It shares no code with the shim, so that what it says about it is independent evidence.
"""

from pathlib import Path

from .recorded import read_recorded

FOLDER = Path(__file__).parent
VARIABLE = "HISTORY_DELTA_RECORD_HTTPX"

__all__ = ["FOLDER", "VARIABLE", "read_recorded"]
