# SPDX-License-Identifier: Apache-2.0
"""A tiny coding agent with three tools, so that a whole run needs nothing but Python.

It is a real loop: it keeps its own history, reads real streams, runs real commands. It is no product: it does not
retry, ask, compact or limit what a command may do. Standard library only.
"""
