# SPDX-License-Identifier: Apache-2.0
"""Everything that is normalised before two runs are compared, each with the reason; there is no other place.

Rules work on text and change nothing but the group ``value`` of their pattern: a body that was written anew stays
different. Only generated ids, temporary paths, dates and times, ports, durations and an agent's own random orders may
have one. What the model made up and what an agent computed from a conversation have none.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Rule:
    """One rule. ``agents`` and ``aspects`` are those that it is for; empty: all.

    What ``value`` matches becomes, in this order: what ``rewrite`` says; ``<KIND-N>``, the N-th of its ``kind`` in the
    run; ``constant``; ``<NAME>``. Without a pattern it is for what is the run's ``own``, by its evidence, and for that
    alone.
    """

    name: str
    reason: str
    pattern: re.Pattern[str] | None = None
    own: Literal["", "paths", "addresses"] = ""
    kind: str = ""
    constant: str = ""
    rewrite: Callable[[re.Match[str]], str] | None = None
    agents: tuple[str, ...] = ()
    aspects: tuple[str, ...] = ()

    def is_for(self, agent: str) -> bool:
        return not self.agents or agent in self.agents


REQUESTS, RECORD = "requests", "session-record"
OPENCODE = ("opencode", "kilo")
HERMES = ("hermes", "hermes-library")

# A JSON string's content, and a quotation mark as it stands in JSON or in JSON within JSON strings.
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_QUOTE = r'\\*"'
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"

_UUID_7 = r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


def _after(names: str, value: str) -> re.Pattern[str]:
    """A value behind one of these names, as a header or as a member of an object at any depth of quoting."""
    return re.compile(rf"(?:^(?:{names}): |{_QUOTE}(?:{names}){_QUOTE}: ?{_QUOTE})(?P<value>{value})", re.MULTILINE)


def _number_after(names: str, digits: str) -> re.Pattern[str]:
    return re.compile(rf"{_QUOTE}(?:{names}){_QUOTE}: ?(?P<value>{digits})")


def _members_in_order(match: re.Match[str]) -> str:
    return ",".join(sorted(re.findall(rf"{_STRING}:{_STRING}", match["value"])))


def _lines_by_call(match: re.Match[str]) -> str:
    """Lines in the order of the tool calls that they name; those of the same call stay as they are."""
    lines = match["value"].splitlines(keepends=True)
    return "".join(sorted(lines, key=lambda line: re.findall(rf":{_QUOTE}(call_[0-9A-Za-z_]+){_QUOTE}", line)[:1]))


# Ids of the scripted model's: each answer's is the beginning of the hash of the body that it answers.
REPLY_ID = re.compile(
    r"(?:chatcmpl-|resp_|rs_|msg_|fc_|c2NyaXB0ZWQ|c2lnbmF0dXJl)(?P<value>[0-9a-f]{24})(?![0-9A-Za-z])"
)

RULES: tuple[Rule, ...] = (
    Rule(
        "codex-metadata-order",
        "Codex writes the members of client_metadata in a new random order on every request, retries included.",
        re.compile(rf'"client_metadata":\{{(?P<value>{_STRING}:{_STRING}(?:,{_STRING}:{_STRING})*)\}}', re.DOTALL),
        rewrite=_members_in_order,
        agents=("codex",),
        aspects=(REQUESTS,),
    ),
    Rule(
        "codex-parallel-results",
        "Codex records the results of tool calls that run at the same time in the order in which they happen to end.",
        re.compile(
            r"^(?P<value>(?:.*"
            r'"payload":\{"type":"(?:function_call_output"|item_completed".*"type":"CommandExecution").*"call_.*\n){2,})',
            re.MULTILINE,
        ),
        rewrite=_lines_by_call,
        agents=("codex",),
        aspects=(RECORD,),
    ),
    Rule(
        "codex-place",
        "Codex counts the entries of its record, those of results that came in a random order as well.",
        _number_after("ordinal|history_sequence|sampled_through_sequence", "[0-9]+"),
        constant="0",
        agents=("codex",),
        aspects=(RECORD,),
    ),
    Rule(
        "temporary-path",
        "Each run has a folder of its own, with the workspace and the agent's home in it; agents tell the model.",
        own="paths",
    ),
    Rule(
        "port",
        "The endpoint that an agent is given has a free port of this machine; agents note its address.",
        own="addresses",
    ),
    Rule(
        "reply-id",
        "The scripted model makes up its ids from a hash of the request's body, so they differ where the body does.",
        REPLY_ID,
        kind="reply",
    ),
    Rule(
        "codex-id",
        "Codex names installation, session, thread, turn, window and request by random UUIDs.",
        _after(
            "session[-_]id|thread[-_]id|turn_id|x-client-request-id|x-codex-window-id|window_id|context_window_id"
            "|root_turn_id|parent_thread_id|forked_from_thread_id|x-codex-parent-thread-id|x-codex-installation-id"
            "|installation_id|prompt_cache_key|id|root_session_id|session_id|parent_turn_id",
            _UUID,
        ),
        kind="id",
        agents=("codex",),
    ),
    Rule(
        "codex-agent-id",
        "Codex names sub-agents by their threads' UUIDs, in what its tools answer and are called with.",
        re.compile(rf"(?:{_QUOTE}|- )(?P<value>{_UUID_7})(?={_QUOTE}|: )"),
        kind="id",
        agents=("codex",),
    ),
    Rule(
        "codex-nickname",
        "Codex gives each sub-agent a random name beside its UUID.",
        re.compile(rf"(?:nickname{_QUOTE}: ?{_QUOTE}|- <id-[0-9]+>: )(?P<value>[A-Z][A-Za-z' -]+)(?={_QUOTE}|\\+n|<)"),
        kind="nickname",
        agents=("codex",),
    ),
    Rule(
        "codex-item-id",
        "Codex gives its own items of the history random ids.",
        re.compile(rf"{_QUOTE}(?:msg|fco|rs|fc|cmp|amsg)_(?P<value>{_UUID}){_QUOTE}"),
        kind="item",
        agents=("codex",),
    ),
    Rule(
        "codex-chunk-id",
        "Codex heads each output of its shell tool with a random id.",
        re.compile(r"Chunk ID: (?P<value>[0-9a-f]{6})(?![0-9a-f])"),
        kind="chunk",
        agents=("codex",),
    ),
    Rule(
        "codex-wall-time",
        "Codex tells the model how long a command took.",
        re.compile(r"Wall time: (?P<value>[0-9]+\.[0-9]+) seconds"),
        agents=("codex",),
    ),
    Rule(
        "codex-turn-started",
        "Codex says in its metadata when the turn began, in milliseconds.",
        _number_after("turn_started_at_unix_ms", r"[0-9]{13}"),
        constant="0",
        agents=("codex",),
    ),
    Rule(
        "opencode-session-id",
        "OpenCode and Kilo name each session by an id that is made of the time and of random characters.",
        re.compile(r"(?<![0-9A-Za-z_])(?P<value>ses_[0-9a-f]{12}[0-9A-Za-z]{14})(?![0-9A-Za-z])"),
        kind="session",
        agents=OPENCODE,
    ),
    Rule(
        "opencode-part-id",
        "OpenCode and Kilo name messages, their parts and events of a session as they do the session itself.",
        re.compile(r"(?<![0-9A-Za-z_])(?P<value>(?:msg|prt|evt|per|tool)_[0-9a-f]{12}[0-9A-Za-z]{14})(?![0-9A-Za-z])"),
        kind="part",
        agents=OPENCODE,
    ),
    Rule(
        "kilo-message-time",
        "Kilo tells the model when each prompt was given.",
        re.compile(r"Message time: (?P<value>20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)"),
        agents=("kilo",),
    ),
    Rule(
        "date",
        "Agents name the day in their system prompts, and midnight may come between two runs.",
        re.compile(
            r"(?:Today's date: |Current date: |<current_date>|Conversation started: )"
            r"(?P<value>20[0-9]{2}-[0-9]{2}-[0-9]{2}|[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} 20[0-9]{2}"
            r"|[A-Z][a-z]+day, [A-Z][a-z]+ [0-9]{2}, 20[0-9]{2})(?![0-9])"
        ),
    ),
    Rule(
        "recorded-time",
        "Agents note in their records when something was, as text: in ISO 8601 or as HTTP does.",
        _after(
            "timestamp|date",
            r"20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z"
            r"|[A-Z][a-z]{2}, [0-9]{2} [A-Z][a-z]{2} 20[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT",
        ),
        aspects=(RECORD,),
    ),
    Rule(
        "recorded-clock",
        "Agents note in their records when something was, as a number: in (milli)seconds since 1970.",
        _number_after(
            "timestamp|time_created|time_updated|created|completed|start|end|started_at_ms|completed_at_ms|started_at"
            "|completed_at|ended_at|first_seen|last_seen|create_time|compacted",
            r"1[0-9]{9}(?:[0-9]{3})?(?:\.[0-9]+)?(?![0-9.])",
        ),
        constant="0",
        aspects=(RECORD,),
    ),
    Rule(
        "codex-duration",
        "Codex notes how long a command or a turn took.",
        _number_after("nanos|duration_ms|time_to_first_token_ms", "[0-9]+"),
        constant="0",
        agents=("codex",),
        aspects=(RECORD,),
    ),
    Rule(
        "codex-process-id",
        "Codex gives each command that it runs a random number.",
        _after("process_id", "[0-9]+"),
        kind="process",
        agents=("codex",),
        aspects=(RECORD,),
    ),
    Rule(
        "codex-printed-item",
        "Codex counts the items that it prints, those of commands that began in a random order as well.",
        _after("id", "item_[0-9]+"),
        kind="printed",
        agents=("codex",),
        aspects=(RECORD,),
    ),
    Rule(
        "codex-revision",
        "Codex names the state of an item in its record by a random UUID.",
        _after("revision", f"retained_{_UUID}"),
        kind="revision",
        agents=("codex",),
        aspects=(RECORD,),
    ),
    Rule(
        "pi-session-id",
        "Pi names a session by a random UUID.",
        _after("id|session_id|x-client-request-id|prompt_cache_key", _UUID),
        kind="session",
        agents=("pi",),
    ),
    Rule(
        "pi-entry-id",
        "Pi names the entries of its record by random numbers.",
        _after("id|parentId|firstKeptEntryId", r"[0-9a-f]{8}(?![0-9A-Za-z-])"),
        kind="entry",
        agents=("pi",),
        aspects=(RECORD,),
    ),
    Rule(
        "hermes-session-id",
        "Hermes names a session by the time and a random number.",
        _after("id|session_id|parent_session_id|_delegate_from", r"20[0-9]{6}_[0-9]{6}_[0-9a-f]{6}"),
        kind="session",
        agents=HERMES,
    ),
    Rule(
        "hermes-row",
        "Hermes counts the messages of all sessions in one table, and those of sub-agents come as they come.",
        _number_after("id", "[0-9]+(?![0-9.])"),
        constant="0",
        agents=HERMES,
        aspects=(RECORD,),
    ),
    Rule(
        "hermes-delegation-id",
        "Hermes keeps what its sub-agents do in a folder with a random name, and tells the model of it.",
        re.compile(r"/(?P<value>deleg_[0-9a-f]{8})/"),
        kind="delegation",
        agents=HERMES,
    ),
    Rule(
        "hermes-duration",
        "Hermes tells the model how long its sub-agents took.",
        _number_after("duration_seconds|total_duration_seconds", r"[0-9]+(?:\.[0-9]+)?(?![0-9.])"),
        constant="0",
        agents=HERMES,
    ),
    Rule(
        "opencode-slug",
        "OpenCode and Kilo give a session two random words for a name.",
        _after("slug", "[a-z]+-[a-z]+"),
        agents=OPENCODE,
        aspects=(RECORD,),
    ),
    Rule(
        "opencode-title",
        "OpenCode and Kilo call a session by when it began until it has a title.",
        re.compile(
            r"(?:New|Child) session - "
            r"(?P<value>20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z)"
        ),
        agents=OPENCODE,
        aspects=(RECORD,),
    ),
    Rule(
        "kilo-speed",
        "Kilo notes how long an answer took and how many tokens came in a second.",
        _number_after("elapsed|generation", r"[0-9]+(?:\.[0-9]+)?(?![0-9.])"),
        constant="0",
        agents=("kilo",),
        aspects=(RECORD,),
    ),
)
