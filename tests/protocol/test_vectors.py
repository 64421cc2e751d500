# SPDX-License-Identifier: Apache-2.0
"""The published vectors: they are what their generator makes, and both the package and the server agree with them."""

import subprocess
import sys
from pathlib import Path

import pytest
import run_vectors
from history_delta_protocol import chain
from history_delta_server import rebuild
from history_delta_server.history import HistoryStore

VECTORS = Path(__file__).parents[2] / "protocol" / "vectors"
CHECKS = list(run_vectors.all_checks(VECTORS))


@pytest.mark.parametrize(("check", "arguments"), [pytest.param(*rest, id=name) for name, *rest in CHECKS])
def test_the_package_agrees(check, arguments):
    check(*arguments)


class ServerReceiver:
    """The server's own rebuilding, behind the interface of the one for tests."""

    def __init__(self, body_bytes, line_bytes):
        self._store = HistoryStore()
        self._limits = body_bytes, line_bytes

    def receive_full(self, rollout, named, body):
        with self._store.in_flight(rollout) as histories:
            return self._told(rebuild.receive_full(histories, named, body))

    def receive_frame(self, rollout, named, data):
        with self._store.in_flight(rollout) as histories:
            return self._told(rebuild.rebuild_frame(histories, named, data, *self._limits))

    @staticmethod
    def _told(rebuilt):
        held = rebuilt.held and [rebuilt.held[0], chain.to_text(rebuilt.held[1])]
        return rebuilt.body, rebuilt.content_type, held


SCENARIOS = [
    pytest.param(*arguments, id=name) for name, check, arguments in CHECKS if check is run_vectors.check_scenario
]


@pytest.mark.parametrize(("case", "before", "after"), SCENARIOS)
def test_the_server_agrees(case, before, after):
    run_vectors.check_scenario(case, before, after, ServerReceiver, (rebuild.Resync,))


def test_the_generator_gives_the_committed_files_without_the_package(tmp_path):
    """No site packages, no environment: it cannot have used the code under test."""
    subprocess.run([sys.executable, "-E", "-S", VECTORS / "generate.py", tmp_path], check=True, timeout=100)
    made = {path.name: path.read_text("ascii") for path in tmp_path.iterdir()}
    committed = {path.name: path.read_text("ascii") for path in VECTORS.glob("*.json")}
    assert made.keys() == committed.keys()
    assert [name for name in made if made[name] != committed[name]] == []


def test_ids_are_unique_and_the_repository_stays_small():
    names = [name for name, _, _ in CHECKS]
    assert len(set(names)) == len(names)
    assert len(names) >= 80
    assert sum(path.stat().st_size for path in VECTORS.iterdir() if path.is_file()) < 1_000_000
