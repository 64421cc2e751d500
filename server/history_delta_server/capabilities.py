# SPDX-License-Identifier: Apache-2.0
"""What a shim may count on here: protocol version, frame encodings and limits. SPEC.md section 3."""

import json

from history_delta_protocol import wire

from .errors import Answer
from .settings import Settings


def capabilities(settings: Settings) -> Answer:
    document = {
        "version": wire.PROTOCOL_VERSION,
        "encodings": ["gzip"],
        "limits": {
            "frame_line_bytes": settings.max_frame_line_bytes,
            "body_bytes": settings.frame_limit[0],
            "messages": wire.MAX_MESSAGES,
            "pieces": wire.MAX_PIECES,
        },
    }
    return Answer(200, json.dumps(document).encode("ascii"))
