# SPDX-License-Identifier: Apache-2.0
"""The sandbox's end: takes an agent's whole requests and sends what is new of them. Standard library, Python 3.6+."""

__version__ = "0.1.0"
