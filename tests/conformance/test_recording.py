# SPDX-License-Identifier: Apache-2.0
"""What a recording says of a request, in memory and in the folder, and what the model calls each of them."""

import json

import pytest
from history_delta_conformance.scripted_model import Recorder, label_of, load_scenario

CHAT = "/v1/chat/completions"
TITLE = {"messages": [{"role": "user", "content": "a title, please"}]}
STEP = {"messages": [{"role": "assistant", "content": "[hello step 1 of 1] x"}]}


async def test_each_request_is_labelled_in_memory_and_in_the_folder(start_model, http, tmp_path):
    model = await start_model("hello", Recorder(tmp_path))
    for body in (STEP, TITLE):
        async with http.post(model.url + CHAT, json=body) as response:
            assert response.status == 200
    async with http.get(model.url + "/v1/models"), http.post(model.url + CHAT, data=b"{"):
        pass
    expected = ["hello 2", "title", "other", "other"]
    assert [recording.label for recording in model.recorder.recordings] == expected
    entries = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [entry["label"] for entry in entries] == expected
    assert {entry["fault"] for entry in entries} == {""}


async def test_a_request_that_gets_a_fault_says_so(start_model, http, tmp_path):
    model = await start_model("model-500", Recorder(tmp_path))
    tools = [{"type": "function", "function": {"name": "bash"}}]
    body = {"messages": [{"role": "assistant", "content": "[model-500 step 2 of 6] x"}], "tools": tools}
    for status in (500, 200):
        async with http.post(model.url + CHAT, json=body) as response:
            assert response.status == status
    entries = [json.loads(line) for line in (tmp_path / "index.jsonl").read_text().splitlines()]
    assert [(entry["label"], entry["fault"]) for entry in entries] == [("model-500 3", "status"), ("model-500 3", "")]


async def test_a_request_that_lacks_the_tool_is_called_after_its_step_all_the_same(start_model, http):
    model = await start_model("tool-use")
    tools = [{"type": "function", "function": {"name": "dance"}}]
    async with http.post(model.url + CHAT, json={"messages": [], "tools": tools}) as response:
        assert response.status == 400
    assert model.recorder.recordings[0].label == "tool-use 1"


@pytest.mark.parametrize(
    ("method", "path", "body", "label"),
    [
        ("POST", CHAT, TITLE, "title"),
        ("POST", "/ng-rollout/r/v1/messages", {"tools": [{"name": "bash"}]}, "tool-use 1"),
        ("POST", "/v1/responses", {"input": "[tool-use step 3 of 12] x"}, "summary"),
        ("GET", CHAT, TITLE, "other"),
        ("POST", "/api/show", TITLE, "other"),
    ],
)
def test_a_label_without_sending_the_request(method, path, body, label):
    assert label_of(load_scenario("tool-use"), method, path, json.dumps(body).encode()) == label
