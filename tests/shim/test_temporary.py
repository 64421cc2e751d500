# SPDX-License-Identifier: Apache-2.0
import os
import stat

import pytest
from history_delta_shim import temporary


def test_it_is_new_beside_the_file_and_the_user_s_alone(tmp_path):
    descriptor, name = temporary.create_beside(str(tmp_path / "file"))
    os.close(descriptor)
    assert [str(path) for path in tmp_path.iterdir()] == [name]
    assert stat.S_IMODE(os.stat(name).st_mode) == 0o600


def test_two_names_differ(tmp_path):
    assert temporary.name_beside("file") != temporary.name_beside("file")


@pytest.mark.parametrize("link", [False, True])
def test_what_stands_there_is_not_written_to(tmp_path, monkeypatch, link):
    taken, target = tmp_path / "taken", tmp_path / "target"
    if link:
        taken.symlink_to(target)
    else:
        taken.write_text("theirs")
    monkeypatch.setattr(temporary, "name_beside", lambda path: str(taken))
    with pytest.raises(FileExistsError):
        temporary.create_beside(str(tmp_path / "file"))
    assert not target.exists()
