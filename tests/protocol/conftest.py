# SPDX-License-Identifier: Apache-2.0
"""Puts this folder's helpers, and the slow reference that the vectors come from, where the tests can import them."""

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

# A loaded machine is no failure of a property.
settings.register_profile("protocol", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("protocol")

HERE = Path(__file__).parent
VECTORS = HERE.parents[1] / "protocol" / "vectors"

for folder in (HERE, VECTORS):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
