# SPDX-License-Identifier: Apache-2.0
"""The cases for shims: the harness starts one, and plays both the agent and the server round it."""

from ..registry import SHIM

for _number, _title in enumerate(
    (
        "capabilities",
        "rollouts and deliveries",
        "full sends",
        "frames",
        "what is sent in full",
        "what counts as held",
        "resync",
        "frames that were not understood",
        "splitting (vectors)",
        "conversations",
        "requests that fail",
        "responses as they come",
        "responses that break",
        "HTTP framing and smuggling",
        "many at once",
    ),
    start=1,
):
    SHIM.group(_number, _title)
