# SPDX-License-Identifier: Apache-2.0
import pytest
from history_delta_shim import agents


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("opencode run hello", "opencode"),
        ("/usr/local/bin/opencode", "opencode"),
        ("npx opencode-ai@1.18.33 run", "opencode"),
        ("npx -y opencode-ai run", "opencode"),
        ("node /lib/node_modules/opencode-ai/bin/opencode.exe", "opencode"),
        ("codex exec --json", "codex"),
        ("npx -y @openai/codex@0.171.0 exec", "codex"),
        ("node /app/node_modules/@openai/codex/bin/codex.js exec", "codex"),
        ("env OPENAI_API_KEY=x codex exec", "codex"),
        ("pi --print hello", "pi"),
        ("npx @earendil-works/pi-coding-agent --print", "pi"),
        ("node /app/node_modules/@earendil-works/pi-coding-agent/dist/cli.js", "pi"),
        ("bunx pi-coding-agent", "pi"),
        ("hermes --yolo -z hi", "hermes"),
        ("python3.11 -m hermes_cli.main chat", "hermes"),
        ("python run_agent.py", "hermes"),
        ("uv run hermes", "hermes"),
        ("uvx hermes-agent", "hermes"),
        ("kilo run", "kilo"),
        ("npm exec @kilocode/cli run", "kilo"),
        ("bash -lc opencode", None),
        ("python train.py codex", None),
        ("node server.js opencode", None),
        ("mycodex", None),
        ("env", None),
        ("grep -r hermes .", None),
    ],
)
def test_an_agent_is_known_by_its_command(command, name):
    agent = agents.detect(command.split())
    assert (agent.name if agent else None) == name


def test_every_agent_can_be_named():
    assert sorted(agents.NAMES) == ["codex", "hermes", "kilo", "opencode", "pi"]
    assert [agents.by_name(name).name for name in agents.NAMES] == list(agents.NAMES)
    assert agents.by_name("auto") is None
