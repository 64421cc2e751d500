# SPDX-License-Identifier: Apache-2.0
"""Which agents, dialects, modes and scenarios are run, off and on, and what comes of each."""
