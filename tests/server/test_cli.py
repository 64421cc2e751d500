# SPDX-License-Identifier: Apache-2.0
import subprocess
import sys

import pytest
from history_delta_server import __version__, cli


def test_version_and_help(capsys) -> None:
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"history-delta {__version__}\n"
    assert cli.main(["--help"]) == 0
    assert all(command in capsys.readouterr().out for command in ("serve", "shim", "demo", "scripted-model")[:1])


def test_the_distribution_has_the_same_version() -> None:
    from importlib.metadata import version

    assert version("history-delta") == __version__


@pytest.mark.parametrize("argv", [[], ["nonsense"]])
def test_anything_else_is_one_line_and_exit_code_2(argv, capsys) -> None:
    assert cli.main(argv) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_serve_has_help_with_every_setting(capsys) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert "--upstream" in text
    assert "--max-bytes-in-flight" in text


def test_serve_checks_a_configuration(capsys) -> None:
    assert cli.main(["serve", "--upstream", "http://127.0.0.1:1", "--check"]) == 0
    assert cli.main(["serve", "--upstream", "nonsense", "--check"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_shims_part_needs_nothing_but_the_standard_library() -> None:
    """Run where no third-party module can be found (-S), from the sources."""
    from pathlib import Path

    root = Path(__file__).resolve().parents[2]
    code = (
        f"import sys; sys.path[:0] = [{str(root / 'server')!r}, {str(root / 'shim')!r}, {str(root / 'protocol')!r}]\n"
        "from history_delta_server import cli\n"
        "assert 'aiohttp' not in sys.modules\n"
        "code = cli.main(['serve', '--upstream', 'http://x'])\n"
        "assert code == 2, code\n"
        "try:\n    code = cli.main(['shim', '--help'])\nexcept SystemExit as ended:\n    code = ended.code\n"
        "assert not code, code\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "pip install 'history-delta[server]'" in done.stderr
    assert done.stderr.count("\n") == 1
