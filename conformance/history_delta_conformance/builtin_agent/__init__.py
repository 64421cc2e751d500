# SPDX-License-Identifier: Apache-2.0
"""A tiny coding agent, so that a whole run needs nothing but Python, and the same one does the same twice.

It is a real loop: it keeps its own history, reads real streams, runs real commands, starts sub-agents, compacts, tries
again. It is no product: it does not ask or limit what a command may do. Standard library only.
"""
