# SPDX-License-Identifier: Apache-2.0
"""A throw-away certificate authority and a server's certificate from it."""

import ssl
from dataclasses import dataclass
from pathlib import Path

import trustme


@dataclass
class Certificates:
    """``authority`` is what a client trusts; ``server`` is a context for 127.0.0.1, localhost and model.test."""

    authority: Path
    server: ssl.SSLContext


def make_certificates(folder: Path) -> Certificates:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost", "model.test").configure_cert(server)
    return Certificates(folder / "ca.pem", server)
