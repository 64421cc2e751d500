# SPDX-License-Identifier: Apache-2.0
"""The names on the wire, as SPEC.md prints them: a change here is a change of the protocol."""

from history_delta_protocol import wire


def test_headers_share_the_prefix_by_which_they_are_stripped():
    headers = [value for name, value in vars(wire).items() if name.endswith("_HEADER")]
    assert sorted(headers) == [
        "History-Delta-Delivery",
        "History-Delta-Full",
        "History-Delta-Held",
        "History-Delta-Resync",
        "History-Delta-Rollout",
        "History-Delta-Version",
    ]
    assert all(header.lower().startswith(wire.HEADER_PREFIX) for header in headers)


def test_resync_is_told_from_any_other_conflict_by_three_marks():
    assert (wire.RESYNC_STATUS, wire.RESYNC_HEADER, wire.RESYNC_CODE) == (
        409,
        "History-Delta-Resync",
        "gym_history_resync",
    )


def test_the_registry_of_resync_reasons_is_complete():
    named = {value for name, value in vars(wire).items() if name.startswith("RESYNC_") and isinstance(value, str)}
    named -= {wire.RESYNC_HEADER, wire.RESYNC_CODE}
    assert named == wire.RESYNC_REASONS
    assert named == {"unknown-base", "unknown-head", "unknown-tail", "mismatch", "new-owner", "disabled"}


def test_media_type_paths_and_limits():
    assert wire.FRAME_MEDIA_TYPE == "application/vnd.history-delta"
    assert wire.CAPABILITIES_SUFFIX == "/.well-known/history-delta"
    assert wire.DELIVERIES_SEGMENT == "/.history-delta/deliveries/"
    assert wire.PROTOCOL_VERSION == 1
    assert (wire.MAX_BODY_BYTES, wire.MAX_FRAME_LINE_BYTES, wire.MAX_HELD_BODY_BYTES) == (2**28, 2**16, 2**25)
    assert (wire.MAX_MESSAGES, wire.MAX_JSON_DEPTH, wire.MAX_PIECES) == (100_000, 512, 64)
