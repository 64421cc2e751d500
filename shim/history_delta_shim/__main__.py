# SPDX-License-Identifier: Apache-2.0
"""The program's entry. It parses on Python 2.7 and on any 3, to say which Python is needed instead of failing."""

import sys

if sys.version_info < (3, 6):
    sys.stderr.write("history-delta: Python 3.6 or newer is needed, and this is %d.%d\n" % sys.version_info[:2])
    sys.exit(2)

from history_delta_shim.cli import main

if __name__ == "__main__":
    sys.exit(main())
