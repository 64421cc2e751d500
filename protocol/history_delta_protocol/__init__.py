# SPDX-License-Identifier: Apache-2.0
"""The history-delta wire protocol without sockets, threads or clocks: what both ends share.

Standard library only, Python 3.6 and newer. ``SPEC.md`` beside this package is normative.
"""
