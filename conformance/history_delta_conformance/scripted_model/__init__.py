# SPDX-License-Identifier: Apache-2.0
"""A model endpoint that plays scenario files and records every request verbatim.

It speaks chat completions, responses and anthropic messages, streamed and not. Which turn comes next is read from the
request's own history; how often a step that has faults was asked for is all that it remembers. It is a test double, no
model: it understands nothing of what it is sent.
"""

from .answering import label_of
from .recording import Recorder, Recording
from .scenario import Scenario
from .scenario_file import ScenarioError, load_scenario, scenario_names
from .server import Pace, ScriptedModel, no_pause

__all__ = [
    "Pace",
    "Recorder",
    "Recording",
    "Scenario",
    "ScenarioError",
    "ScriptedModel",
    "label_of",
    "load_scenario",
    "no_pause",
    "scenario_names",
]
