# SPDX-License-Identifier: Apache-2.0
"""``python -m history_delta_server``: the same as the ``history-delta`` command."""

import sys

from .cli import main

sys.exit(main())
