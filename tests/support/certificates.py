# SPDX-License-Identifier: Apache-2.0
"""A throw-away certificate authority and a server's certificate from it, made by the openssl command."""

import shutil
import ssl
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Certificates:
    """``authority`` is what a client trusts; ``server`` is a context for 127.0.0.1, localhost and model.test."""

    authority: Path
    server: ssl.SSLContext


def make_certificates(folder: Path) -> Certificates:
    openssl = shutil.which("openssl")
    assert openssl, "the openssl command is needed for tests of TLS"

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    new = ["-newkey", "rsa:2048", "-nodes", "-subj"]
    (folder / "names").write_text(
        "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:model.test\nbasicConstraints=CA:FALSE\n"
    )
    run("req", "-x509", *new, "/CN=test authority", "-days", "2", "-keyout", "ca.key", "-out", "ca.pem")
    run("req", *new, "/CN=test server", "-keyout", "server.key", "-out", "server.csr")
    signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    run("x509", "-req", "-in", "server.csr", *signing, "-out", "server.pem")
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(folder / "server.pem", folder / "server.key")
    return Certificates(folder / "ca.pem", server)
