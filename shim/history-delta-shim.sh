#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs history_delta_shim.pyz, which lies beside this file, on a Python that can: HISTORY_DELTA_PYTHON, or the first on
# PATH. Where there is none, `run` still runs the agent: directly, without the shim.

pyz=$(dirname "$0")/history_delta_shim.pyz
why="there is no Python from 3.6 on"

if [ ! -r "$pyz" ]; then
    why="$pyz is not there"
else
    for python in ${HISTORY_DELTA_PYTHON:-python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 \
        python3.8 python3.7 python3.6 python /usr/libexec/platform-python}; do
        # Isolated: neither PYTHONPATH nor a customised site is the shim's business. The agent gets all of it.
        if "$python" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 6))' </dev/null >/dev/null 2>&1; then
            exec "$python" -I -S "$pyz" "$@"
        fi
    done
fi

if [ "${1-}" = run ]; then
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        shift
    done
    if [ $# -gt 1 ]; then
        shift
        echo "history-delta: $why; running the agent directly" >&2
        exec "$@"
    fi
fi
echo "history-delta: $why" >&2
exit 2
