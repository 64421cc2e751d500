# SPDX-License-Identifier: Apache-2.0
import os
import stat
import subprocess
import sys
import textwrap

import pytest
from history_delta_shim.rewrite import Rewrite, RewriteError, recover
from history_delta_shim.substitute import Substitution

ORIGINAL = b'{"a":"http://gw:8000/v1", "b":"caf\xc3\xa9 \\u007b"}\r\n'
POINTED = ORIGINAL.replace(b"http://gw:8000", b"http://127.0.0.1:4141")
SUBSTITUTION = Substitution("http://gw:8000", "http://127.0.0.1:4141")


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "opencode.json"
    path.write_bytes(ORIGINAL)
    path.chmod(0o640)
    return path


def kept(config):
    return config.with_name(config.name + ".history-delta-original")


def test_the_file_is_pointed_and_given_back_with_its_inode_and_mode(config):
    before = config.stat()
    rewrite = Rewrite(str(config), SUBSTITUTION)
    assert config.read_bytes() == POINTED
    assert kept(config).read_bytes() == ORIGINAL
    rewrite.restore()
    assert config.read_bytes() == ORIGINAL
    assert os.listdir(config.parent) == [config.name]
    assert (config.stat().st_ino, stat.S_IMODE(config.stat().st_mode)) == (before.st_ino, 0o640)


def test_a_link_is_followed(config, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(config)
    rewrite = Rewrite(str(link), SUBSTITUTION)
    assert link.is_symlink()
    assert config.read_bytes() == POINTED
    rewrite.restore()
    assert config.read_bytes() == ORIGINAL


def test_an_edit_of_the_agent_s_survives(config):
    rewrite = Rewrite(str(config), SUBSTITUTION)
    config.write_bytes(POINTED + b"// edited, http://127.0.0.1:4141/v1\n")
    rewrite.restore()
    assert config.read_bytes() == ORIGINAL + b"// edited, http://gw:8000/v1\n"


def test_a_file_that_the_agent_removed_stays_removed(config):
    rewrite = Rewrite(str(config), SUBSTITUTION)
    config.unlink()
    rewrite.restore()
    assert os.listdir(config.parent) == []


def test_a_second_run_on_the_same_file_is_refused_and_disturbs_nothing(config):
    rewrite = Rewrite(str(config), SUBSTITUTION)
    with pytest.raises(RewriteError, match="another run"):
        Rewrite(str(config), SUBSTITUTION)
    with pytest.raises(RewriteError, match="another run"):
        recover(str(config), SUBSTITUTION)
    assert config.read_bytes() == POINTED
    rewrite.restore()
    assert config.read_bytes() == ORIGINAL


def killed_run(config, edit=b""):
    script = """
        import os, signal, sys
        from history_delta_shim.rewrite import Rewrite
        from history_delta_shim.substitute import Substitution
        Rewrite(sys.argv[1], Substitution("http://gw:8000", "http://127.0.0.1:999"))
        os.kill(os.getpid(), signal.SIGKILL)
    """
    killed = subprocess.run([sys.executable, "-c", textwrap.dedent(script), str(config)])
    assert killed.returncode == -9
    assert config.read_bytes() != ORIGINAL
    if edit:
        config.write_bytes(config.read_bytes() + edit)


def test_what_a_killed_run_left_is_restored(config):
    killed_run(config)
    assert "restored" in recover(str(config), SUBSTITUTION)
    assert config.read_bytes() == ORIGINAL
    assert os.listdir(config.parent) == [config.name]


def test_what_a_killed_run_left_with_an_edit_is_restored_and_the_edit_kept(config):
    killed_run(config, b"edited")
    line = recover(str(config), SUBSTITUTION)
    changed = config.with_name(config.name + ".history-delta-changed")
    assert str(changed) in line
    assert changed.read_bytes().endswith(b"edited")
    assert config.read_bytes() == ORIGINAL


def test_a_link_where_the_edited_content_is_to_be_put_is_not_followed(config, tmp_path):
    target = tmp_path / "target"
    target.write_bytes(b"theirs")
    changed = config.with_name(config.name + ".history-delta-changed")
    changed.symlink_to(target)
    killed_run(config)
    config.write_bytes(b"edited")
    recover(str(config), SUBSTITUTION)
    assert (changed.read_bytes(), target.read_bytes()) == (b"edited", b"theirs")
    assert not changed.is_symlink()


def test_a_file_removed_in_a_killed_run_stays_removed(config):
    killed_run(config)
    config.unlink()
    assert "not restored" in recover(str(config), SUBSTITUTION)
    assert os.listdir(config.parent) == []


def test_there_is_usually_nothing_to_recover(config):
    assert recover(str(config), SUBSTITUTION) is None
    assert recover(str(config.parent / "absent"), SUBSTITUTION) is None


def test_a_file_that_cannot_be_read_is_refused_by_name(config):
    with pytest.raises(RewriteError, match=r"absent\.json cannot be rewritten"):
        Rewrite(str(config.parent / "absent.json"), SUBSTITUTION)
    with pytest.raises(RewriteError, match="cannot be rewritten"):
        Rewrite(str(config.parent), SUBSTITUTION)
    assert os.listdir(config.parent) == [config.name]
