# SPDX-License-Identifier: Apache-2.0
"""The server in front of a model: rebuilds what shims send and passes it on, byte for byte."""

__version__ = "0.1.0"
