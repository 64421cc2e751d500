# SPDX-License-Identifier: Apache-2.0
"""The cases for servers: the harness plays the agent and its shim on one side, and the model on the other."""

from ..registry import SERVER

for _number, _title in enumerate(
    (
        "capabilities",
        "full sends",
        "splitting (vectors)",
        "frames that are taken (vectors)",
        "resync",
        "frames that are refused (vectors)",
        "limits",
        "headers",
        "where frames may go",
        "rollouts",
        "deliveries",
        "responses as they come",
        "responses that break",
        "HTTP framing and smuggling",
        "where a call goes",
        "switched off",
    ),
    start=1,
):
    SERVER.group(_number, _title)
