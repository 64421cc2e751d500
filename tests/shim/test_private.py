# SPDX-License-Identifier: Apache-2.0
import fcntl
import os
import stat
from pathlib import Path

import pytest
from history_delta_shim.agents import CODEX
from history_delta_shim.private import PrivateDirectory, lock_file, read

HOME = CODEX.homes[0]


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def original(tmp_path):
    home = tmp_path / "home"
    (home / "sessions").mkdir(parents=True)
    (home / "skills").mkdir()
    (home / "config.toml").write_bytes(b"original\n")
    (home / "auth.json").write_bytes(b"{}")
    return home


@pytest.fixture
def private(cache):
    directory = PrivateDirectory({"XDG_CACHE_HOME": str(cache)})
    yield directory
    if os.path.isdir(directory.path):
        directory.close()


def mirror(private, original):
    return Path(private.home(str(original), HOME, {"config.toml": b"pointed\n"}))


def snapshot(folder):
    return {str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def test_only_the_user_can_look_into_it(private):
    assert stat.S_IMODE(os.stat(private.path).st_mode) == 0o700


def test_its_path_is_the_same_from_run_to_run_and_differs_for_one_beside_it(cache):
    first, second = (PrivateDirectory({"XDG_CACHE_HOME": str(cache)}) for _ in range(2))
    paths = [first.path, second.path]
    first.close()
    second.close()
    again = PrivateDirectory({"XDG_CACHE_HOME": str(cache)})
    again.close()
    assert paths[0] != paths[1]
    assert again.path == paths[0]


def test_nothing_is_left_of_it(private, cache):
    private.close()
    assert not cache.exists()


def test_what_was_there_before_it_stays(cache):
    cache.mkdir()
    PrivateDirectory({"XDG_CACHE_HOME": str(cache)}).close()
    assert list(cache.iterdir()) == []


def test_what_a_killed_run_left_is_cleared_by_the_next(cache):
    left = PrivateDirectory({"XDG_CACHE_HOME": str(cache)})
    Path(left.path, "old").write_text("old")
    os.close(left._lock)  # as the system does for a process that is killed
    following = PrivateDirectory({"XDG_CACHE_HOME": str(cache)})
    assert following.path == left.path
    assert os.listdir(following.path) == []
    following.close()


def test_without_a_writable_cache_it_is_in_the_temporary_directory(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a directory")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = PrivateDirectory({"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert Path(directory.path).parent == tmp_path
    directory.close()
    assert not os.path.exists(directory.path)


def test_a_home_s_copies_are_files_and_the_rest_are_links(private, original):
    os.chmod(original / "config.toml", 0o640)
    home = mirror(private, original)
    assert (home / "config.toml").read_bytes() == b"pointed\n"
    assert not (home / "config.toml").is_symlink()
    assert stat.S_IMODE((home / "config.toml").stat().st_mode) == 0o640
    assert os.readlink(home / "auth.json") == str(original / "auth.json")
    assert os.readlink(home / "sessions") == str(original / "sessions")


def test_an_agent_that_writes_nothing_leaves_the_home_as_it_was(private, original):
    (original / "sessions").rmdir()
    before = snapshot(original)
    home = mirror(private, original)
    assert (home / "sessions").is_dir()
    assert private.close() == []
    assert snapshot(original) == before


def test_records_are_in_the_user_s_home_while_the_agent_runs(private, original):
    (original / "sessions").rmdir()
    home = mirror(private, original)
    (home / "sessions" / "one.jsonl").write_text("session")
    (home / "history.jsonl").write_text("history")
    with (home / "auth.json").open("w") as file:
        file.write("refreshed")
    assert (original / "sessions" / "one.jsonl").read_text() == "session"
    assert (original / "history.jsonl").read_text() == "history"
    assert (original / "auth.json").read_text() == "refreshed"
    private.close()
    assert (original / "sessions" / "one.jsonl").read_text() == "session"


def test_what_the_agent_made_or_replaced_is_carried_over_at_the_end(private, original):
    home = mirror(private, original)
    (home / "new.sqlite").write_text("database")
    (home / "folder").mkdir()
    (home / "folder" / "inside").write_text("inside")
    (home / "auth.json.tmp").write_text("rotated")
    os.replace(home / "auth.json.tmp", home / "auth.json")
    assert private.close() == []
    assert (original / "new.sqlite").read_text() == "database"
    assert (original / "folder" / "inside").read_text() == "inside"
    assert (original / "auth.json").read_text() == "rotated"


def test_what_another_run_made_meanwhile_stays_and_the_loss_is_told(private, original):
    home = mirror(private, original)
    (home / "new.sqlite").write_text("ours")
    (home / "folder").mkdir()
    (home / "folder" / "ours").write_text("ours")
    (original / "new.sqlite").write_text("theirs")
    (original / "folder").mkdir()
    (original / "folder" / "theirs").write_text("theirs")
    lines = private.close()
    assert len(lines) == 1
    assert str(original / "new.sqlite") in lines[0]
    assert (original / "new.sqlite").read_text() == "theirs"
    assert sorted(os.listdir(original / "folder")) == ["ours", "theirs"]


def test_a_changed_copy_is_not_carried_over_and_that_is_told(private, original):
    home = mirror(private, original)
    (home / "config.toml").write_text("trusted = true")
    lines = private.close()
    assert len(lines) == 1
    assert str(original / "config.toml") in lines[0]
    assert (original / "config.toml").read_bytes() == b"original\n"


@pytest.mark.parametrize("how", ["writable by others", "writable by the group", "a link", "another user's"])
def test_a_cache_in_which_others_could_put_links_is_not_used(cache, tmp_path, monkeypatch, how):
    ours = cache / "history-delta"
    ours.mkdir(parents=True)
    ours.chmod({"writable by others": 0o707, "writable by the group": 0o770}.get(how, 0o755))
    if how == "a link":
        ours.rename(tmp_path / "elsewhere")
        ours.symlink_to(tmp_path / "elsewhere")
    if how == "another user's":
        monkeypatch.setattr("os.geteuid", lambda: ours.stat().st_uid + 1)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = PrivateDirectory({"XDG_CACHE_HOME": str(cache)})
    assert Path(directory.path).parent == tmp_path
    assert os.listdir(ours) == []
    directory.close()


def test_a_file_is_copied_among_links_to_its_neighbours(private, tmp_path):
    (tmp_path / "opencode.json").write_text("original")
    (tmp_path / "prompt.txt").write_text("prompt")
    copy = Path(private.beside_links(str(tmp_path / "opencode.json"), b"pointed"))
    assert copy.read_bytes() == b"pointed"
    assert (copy.parent / "prompt.txt").read_text() == "prompt"
    assert private.close() == []
    assert (tmp_path / "opencode.json").read_text() == "original"


def test_a_lock_is_exclusive_until_it_is_closed(tmp_path):
    lock = lock_file(str(tmp_path / "lock"))
    assert lock_file(str(tmp_path / "lock")) is None
    os.close(lock)
    second = lock_file(str(tmp_path / "lock"))
    assert second is not None
    os.close(second)


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_taken_anew(tmp_path, monkeypatch):
    path = str(tmp_path / "lock")
    real, removed = fcntl.flock, []

    def flock_after_removal(descriptor, operation):
        if not removed:
            removed.append(os.unlink(path))
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_after_removal)
    lock = lock_file(path)
    assert os.fstat(lock).st_ino == os.stat(path).st_ino
    os.close(lock)


def test_only_files_of_a_configuration_s_size_are_read(tmp_path):
    with (tmp_path / "large").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    os.mkfifo(tmp_path / "pipe")
    assert read(str(tmp_path / "large")) is None
    assert read(str(tmp_path / "pipe")) is None
    assert read(str(tmp_path)) is None
    assert read(str(tmp_path / "absent")) is None
