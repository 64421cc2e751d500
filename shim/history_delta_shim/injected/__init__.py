# SPDX-License-Identifier: Apache-2.0
"""A folder that stands on the PYTHONPATH of agents, by itself; see sitecustomize in it, and injection beside it."""
