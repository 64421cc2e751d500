# SPDX-License-Identifier: Apache-2.0
"""Names, codes and default limits that stand on the wire. SPEC.md sections 2, 3 and 10."""

PROTOCOL_VERSION = 1

VERSION_HEADER = "History-Delta-Version"
DELIVERY_HEADER = "History-Delta-Delivery"
ROLLOUT_HEADER = "History-Delta-Rollout"
FULL_HEADER = "History-Delta-Full"
HELD_HEADER = "History-Delta-Held"
RESYNC_HEADER = "History-Delta-Resync"
# Every header of ours is hop-local: stripped from what is forwarded, in both directions.
HEADER_PREFIX = "history-delta-"

FRAME_MEDIA_TYPE = "application/vnd.history-delta"
CAPABILITIES_SUFFIX = "/.well-known/history-delta"
DELIVERIES_SEGMENT = "/.history-delta/deliveries/"

RESYNC_STATUS = 409
RESYNC_CODE = "gym_history_resync"
MALFORMED_CODE = "history_delta_malformed"
TOO_LARGE_CODE = "history_delta_too_large"
BUSY_CODE = "history_delta_busy"
REUSED_CODE = "history_delta_delivery_reused"
ROLLOUT_CODE = "history_delta_rollout_invalid"
UPSTREAM_UNREACHABLE_CODE = "history_delta_upstream_unreachable"  # it never ran
UPSTREAM_FAILED_CODE = "history_delta_upstream_failed"  # it may have run
UNAVAILABLE_CODE = "history_delta_unavailable"

# Reasons that a resync response may name.
RESYNC_UNKNOWN_BASE = "unknown-base"
RESYNC_UNKNOWN_HEAD = "unknown-head"
RESYNC_UNKNOWN_TAIL = "unknown-tail"
RESYNC_MISMATCH = "mismatch"
RESYNC_NEW_OWNER = "new-owner"
RESYNC_DISABLED = "disabled"
RESYNC_REASONS = frozenset(
    [
        RESYNC_UNKNOWN_BASE,
        RESYNC_UNKNOWN_HEAD,
        RESYNC_UNKNOWN_TAIL,
        RESYNC_MISMATCH,
        RESYNC_NEW_OWNER,
        RESYNC_DISABLED,
    ]
)

# Why a client sent a body in full, as it tells the server; for logs and metrics alone.
FULL_REASONS = frozenset(
    [
        "peer-does-not-speak",
        "content-encoding",
        "content-type-repeated",
        "content-type-not-restorable",
        "too-large",
        "not-json",
        "no-history",
        "too-deep",
        "too-many-messages",
        "too-many-values",
        "over-peer-limit",
        "frame-not-smaller",
        "frame-not-understood",
        "suspended",
    ]
    + ["resync:" + reason for reason in RESYNC_REASONS]
)

KIB = 1024
MIB = 1024 * 1024

MAX_HEAD_BYTES = 64 * KIB  # of an HTTP message
MAX_BODY_BYTES = 256 * MIB  # rebuilt, and so decompressed as well
MAX_FRAME_LINE_BYTES = 64 * KIB
MAX_MESSAGES = 100000
MAX_JSON_DEPTH = 512
MAX_PIECES = 64
MAX_HELD_BODY_BYTES = 32 * MIB  # a larger full send is passed through, not held
