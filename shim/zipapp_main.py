# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: UP031, UP036
"""The archive's __main__: says why on a Python that is too old, which is all that such a Python must understand."""

import sys

if sys.version_info < (3, 6):
    sys.stderr.write("history-delta: Python 3.6 or newer is needed, this is %d.%d\n" % sys.version_info[:2])
    sys.exit(2)

from history_delta_shim.cli import main

sys.exit(main())
