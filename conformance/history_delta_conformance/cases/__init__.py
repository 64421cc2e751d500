# SPDX-License-Identifier: Apache-2.0
"""The published cases: numbered checks of any server or any shim that speaks the protocol, each naming its MUST."""
