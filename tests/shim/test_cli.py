# SPDX-License-Identifier: Apache-2.0
import subprocess
from pathlib import Path

import history_delta_protocol
import history_delta_shim
import pytest
from history_delta_shim import cli
from support.interpreters import interpreters
from support.needs import needs

MAIN = Path(history_delta_shim.__file__).with_name("__main__.py")


def test_a_command_is_expected(capsys):
    for arguments in ([], ["dance"]):
        assert cli.main(arguments) == 2
        assert capsys.readouterr().err == "history-delta: expected a command, serve or run; --help says more\n"


def test_help_and_version(capsys):
    assert cli.main(["--help"]) == 0
    assert {line.split()[0] for line in capsys.readouterr().out.splitlines()} == {"usage:", "run", "serve"}
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == history_delta_shim.__version__ + "\n"


@pytest.mark.parametrize("command", ["serve", "run"])
def test_each_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main([command, "--help"])
    assert ended.value.code == 0
    assert "--upstream" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["serve", "--nonsense"], ["serve", "--listen-fd", "x"], ["run", "--agent", "x"]])
def test_wrong_flags_are_told_in_one_line(arguments, capsys):
    assert cli.main(arguments) == 2
    told = capsys.readouterr().err
    assert told.startswith("history-delta: ")
    assert told.count("\n") == 1


def test_a_python_that_is_too_old_says_so_in_one_line():
    old = interpreters().get("2.7")
    needs(old, "Python 2.7")
    ran = subprocess.run([old, str(MAIN)], capture_output=True, text=True)
    assert ran.returncode == 2
    assert ran.stderr == "history-delta: Python 3.6 or newer is needed, and this is 2.7\n"
    assert ran.stdout == ""


def test_the_package_can_be_run_as_a_module(python):
    roots = [str(Path(package.__file__).parents[1]) for package in (history_delta_shim, history_delta_protocol)]
    command = [python, "-S", "-m", "history_delta_shim", "--version"]
    ran = subprocess.run(command, capture_output=True, text=True, env={"PYTHONPATH": ":".join(roots)})
    assert ran.stdout == history_delta_shim.__version__ + "\n"
