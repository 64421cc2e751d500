# SPDX-License-Identifier: Apache-2.0
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.bench import Bench
from support.endpoints import ListeningEndpoint
from support.in_process_runs import InProcessRuns
from support.interpreters import supported
from support.recording_upstream import RecordingUpstream, recording_upstream
from support.shim_archive import build_shim
from support.shim_server import ShimServer


def _interpreters() -> dict[str, str]:
    """The oldest that there is and this one; every one with HISTORY_DELTA_TEST_PYTHON=all, or the one that it names."""
    chosen = os.environ.get("HISTORY_DELTA_TEST_PYTHON", "")
    if chosen == "all":
        return supported()
    if chosen:
        return {os.path.basename(os.path.dirname(os.path.dirname(chosen))): chosen}
    oldest = next(iter(supported().items()))
    return dict([oldest, ("{}.{}".format(*sys.version_info), sys.executable)])


@pytest.fixture(params=_interpreters().values(), ids=_interpreters().keys())
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter that the shim must run on."""
    return request.param


@pytest.fixture
def upstream() -> Iterator[ListeningEndpoint]:
    listening = ListeningEndpoint()
    yield listening
    listening.close()


@pytest.fixture
def start_shim(python, tmp_path) -> Iterator[Callable[..., ShimServer]]:
    """Starts a shim with options of ``serve``; all of them are stopped at the end."""
    started: list[ShimServer] = []
    numbers = itertools.count()

    def start(*options: str, **more) -> ShimServer:
        folder = tmp_path / f"shim-{next(numbers)}"
        folder.mkdir()
        started.append(ShimServer(python, folder, *options, **more))
        return started[-1]

    yield start
    for shim in started:
        shim.stop()


@pytest.fixture
def shim(start_shim, upstream) -> ShimServer:
    """A shim that is switched off: what it is given is passed on."""
    return start_shim("--upstream", upstream.origin)


@pytest.fixture
def speaking_shim(start_shim, upstream) -> ShimServer:
    """A shim that is switched on."""
    return start_shim("--upstream", upstream.origin, env={"HISTORY_DELTA_ENABLED": "1"})


@pytest.fixture(scope="session")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The shim as it ships."""
    return build_shim(tmp_path_factory.mktemp("dist"))


@pytest.fixture
def recorded() -> Iterator[RecordingUpstream]:
    """An upstream that answers every call and keeps it."""
    with recording_upstream() as recorded:
        yield recorded


@pytest.fixture
def bench(python: str, archive: Path, tmp_path: Path, recorded: RecordingUpstream) -> Bench:
    """What starts ``run`` with the shim as it ships."""
    return Bench([python, str(archive)], tmp_path, recorded)


@pytest.fixture(params=["one file", "package"])
def run_in_process(request: pytest.FixtureRequest, archive: Path, tmp_path: Path) -> InProcessRuns:
    """Runs programs with the transport in process, out of either form of the shim."""
    if request.param == "one file":
        return InProcessRuns([sys.executable, "-I", "-S", str(archive)], tmp_path)
    return InProcessRuns([sys.executable, "-m", "history_delta_shim"], tmp_path)
