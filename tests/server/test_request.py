# SPDX-License-Identifier: Apache-2.0
import json

import pytest
from history_delta_protocol.dialect import CHAT, MESSAGES, RESPONSES
from history_delta_server.errors import Refused
from history_delta_server.request import Incoming, Route, Rules, classify

FRAME = (b"Content-Type", b"application/vnd.history-delta")
VERSION = (b"History-Delta-Version", b"1")
DELIVERY = (b"History-Delta-Delivery", b"0123456789abcdef0123456789abcdef")
CHAT_PATH = "/ng-rollout/r1/v1/chat/completions"


def classified(
    target: str = CHAT_PATH, *headers: tuple[bytes, bytes], method: str = "POST", enabled: bool = True, **rules: bool
) -> Incoming:
    return classify(method, target, headers, Rules(enabled, **rules))


def refused(
    target: str = CHAT_PATH, *headers: tuple[bytes, bytes], method: str = "POST", enabled: bool = True, **rules: bool
) -> Refused:
    with pytest.raises(Refused) as caught:
        classify(method, target, headers, Rules(enabled, **rules))
    return caught.value


@pytest.mark.parametrize(
    ("target", "dialect"),
    [
        (CHAT_PATH, CHAT),
        ("/ng-rollout/r1/training-token-capture/v1/responses", RESPONSES),
        ("/ng-rollout/r1/v1/messages?beta=true", MESSAGES),
    ],
)
def test_a_post_to_a_model_path_of_a_rollout_is_a_model_call(target: str, dialect: object) -> None:
    incoming = classified(target, VERSION, DELIVERY)
    assert (incoming.route, incoming.dialect, incoming.rollout) == (Route.MODEL_CALL, dialect, "r1")
    assert (incoming.speaks_protocol, incoming.delivery) == (True, DELIVERY[1].decode())


@pytest.mark.parametrize(
    ("target", "method", "enabled", "reason"),
    [
        (CHAT_PATH, "POST", False, "disabled"),
        (CHAT_PATH, "GET", True, "no-model-call"),
        (CHAT_PATH + "/", "POST", True, "no-model-call"),
        ("/ng-rollout/r1/v1/models", "GET", True, "no-model-call"),
        ("/v1/chat/completions", "POST", True, "no-rollout"),
    ],
)
def test_all_else_passes_through_with_a_reason(target: str, method: str, enabled: bool, reason: str) -> None:
    incoming = classified(target, method=method, enabled=enabled)
    assert (incoming.route, incoming.reason) == (Route.PASS_THROUGH, reason)


def test_the_rollout_may_come_from_the_header() -> None:
    incoming = classified("/v1/chat/completions", (b"history-delta-ROLLOUT", b"r2"))
    assert (incoming.route, incoming.rollout) == (Route.MODEL_CALL, "r2")


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("target", "header"),
    [
        ("/ng-rollout//v1/chat/completions", None),
        ("/ng-rollout/-x/v1/chat/completions", None),
        ("/ng-rollout/../v1/chat/completions", None),
        ("/ng-rollout/-/.history-delta/deliveries/x", None),
        ("/ng-rollout/a%2Fb/v1/chat/completions", None),
        ("/ng-rollout/" + "a" * 201 + "/v1/chat/completions", None),
        ("/v1/chat/completions", b"../etc"),
        ("/v1/chat/completions", b"a\xe9"),
        (CHAT_PATH, b"r2"),
    ],
)
def test_a_rollout_id_outside_the_grammar_or_two_that_differ_are_a_400(target, header, enabled) -> None:
    headers = [] if header is None else [(b"History-Delta-Rollout", header)]
    error = refused(target, *headers, enabled=enabled)
    assert error.answer.status == 400
    assert json.loads(error.answer.body)["error"]["code"] == "history_delta_rollout_invalid"


@pytest.mark.parametrize("value", [FRAME[1], b"Application/VND.history-delta;x=y"])
@pytest.mark.parametrize("target", [CHAT_PATH, "/anything", "/v1/.well-known/history-delta"])
def test_a_disabled_server_answers_every_frame_with_a_resync(target: str, value: bytes) -> None:
    error = refused(target, (b"Content-Type", value), enabled=False)
    assert (error.answer.status, error.reason) == (409, "disabled")
    assert (b"History-Delta-Resync", b"disabled") in error.answer.headers
    assert json.loads(error.answer.body)["error"]["code"] == "gym_history_resync"


def test_a_frame_of_no_rollout_is_answered_with_a_resync() -> None:
    error = refused("/v1/chat/completions", FRAME, VERSION)
    assert (error.answer.status, error.reason) == (409, "unknown-base")


@pytest.mark.parametrize(
    ("target", "method", "headers", "field"),
    [
        ("/ng-rollout/r1/v1/embeddings", "POST", [FRAME, VERSION], "path"),
        (CHAT_PATH, "PUT", [FRAME, VERSION], "path"),
        ("/v1/.well-known/history-delta", "GET", [FRAME, VERSION], "path"),
        (CHAT_PATH, "POST", [FRAME], "History-Delta-Version"),
        (CHAT_PATH, "POST", [FRAME, (b"History-Delta-Version", b"2")], "History-Delta-Version"),
        (CHAT_PATH, "POST", [VERSION, VERSION], "History-Delta-Version"),
        (CHAT_PATH, "POST", [VERSION, (b"History-Delta-Delivery", b"short")], "History-Delta-Delivery"),
        (CHAT_PATH, "POST", [VERSION, DELIVERY, DELIVERY], "History-Delta-Delivery"),
        (CHAT_PATH, "POST", [(b"History-Delta-Rollout", b"r1")] * 2, "History-Delta-Rollout"),
    ],
)
def test_what_breaks_the_protocol_is_a_400_that_names_the_field(target, method, headers, field) -> None:
    error = refused(target, *headers, method=method)
    document = json.loads(error.answer.body)["error"]
    assert (error.answer.status, document["code"]) == (400, "history_delta_malformed")
    assert document["message"].startswith(field + ":")


def test_an_unknown_version_of_a_full_send_is_no_shim_of_ours_and_no_error() -> None:
    incoming = classified(CHAT_PATH, (b"History-Delta-Version", b"2"))
    assert (incoming.route, incoming.speaks_protocol) == (Route.MODEL_CALL, False)


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "target",
    [
        "/v1/.history-delta/deliveries/" + "0" * 32,
        "/ng-rollout/r1/.history-delta/deliveries/x?offset=1",
        "/.history-delta",
        "/v1/%2ehistory-delta/x",
        "/v1/.history%2Ddelta%2Fx",
    ],
)
def test_reserved_paths_are_never_forwarded(target: str, enabled: bool) -> None:
    assert refused(target, method="GET", enabled=enabled).answer.status == 404


def test_capabilities_are_asked_for_with_get_and_only_where_enabled() -> None:
    for target in ("/v1/.well-known/history-delta", "/.well-known/history-delta?x", "/v1/%2Ewell-known/history-delta"):
        assert classified(target, method="GET").route is Route.CAPABILITIES
        assert classified(target, method="HEAD").route is Route.CAPABILITIES
        assert refused(target, method="POST").answer.status == 404
        assert refused(target, method="GET", enabled=False).answer.status == 404


@pytest.mark.parametrize("enabled", [True, False])
def test_a_websocket_is_refused_with_426(enabled: bool) -> None:
    headers = [(b"Connection", b"Upgrade"), (b"Upgrade", b"WebSocket")]
    assert refused(CHAT_PATH, *headers, method="GET", enabled=enabled).answer.status == 426


def test_any_other_upgrade_is_simply_not_taken() -> None:
    assert classified(CHAT_PATH, (b"Connection", b"Upgrade, HTTP2-Settings"), (b"Upgrade", b"h2c")).rollout == "r1"


def test_a_transfer_coding_that_is_not_understood_goes_no_further() -> None:
    assert refused(CHAT_PATH, (b"Transfer-Encoding", b"gzip, chunked")).answer.status == 501
    assert classified(CHAT_PATH, (b"Transfer-Encoding", b"Chunked")).rollout == "r1"


@pytest.mark.parametrize(
    ("raw", "target", "kept"),
    [
        (CHAT_PATH, "/v1/chat/completions", CHAT_PATH),
        ("/base/ng-rollout/r1/v1/x?q=%2F", "/base/v1/x?q=%2F", "/base/ng-rollout/r1/v1/x?q=%2F"),
        ("/ng-rollout/r1", "/", "/ng-rollout/r1"),
        ("/ng-rollout/r1?q", "/?q", "/ng-rollout/r1?q"),
        ("http://evil.example:1/v1/models?x", "/v1/models?x", "/v1/models?x"),
        ("HTTPS://evil.example", "/", "/"),
        ("http://evil.example?x", "/?x", "/?x"),
        ("/a//b/...%C3%A9 é?x=../#y", "/a//b/...%C3%A9 é?x=../#y", "/a//b/...%C3%A9 é?x=../#y"),
    ],
)
def test_the_target_goes_on_without_prefix_and_host_and_otherwise_unchanged(raw: str, target: str, kept: str) -> None:
    incoming = classified(raw)
    assert incoming.upstream_target(keep_prefix=False) == target
    assert incoming.upstream_target(keep_prefix=True) == kept


@pytest.mark.parametrize("target", ["*", "host:443", "ftp://host/x"])
def test_a_target_that_is_no_path_is_a_400(target: str) -> None:
    assert refused(target, method="OPTIONS").answer.status == 400


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "target",
    [
        "/ng-rollout/r/../../admin",
        "/..",
        "/v1/./models",
        "/v1/%2e%2E/models",
        "/v1/.%2e/models",
        "/v1/..%2fadmin",
        "/v1/..%5Cadmin",
        "/v1/..\\admin",
        "/admin#/v1/models",
        "http://evil/../admin",
        "/ng-rollout/r1/v1/../v1/chat/completions",
    ],
)
def test_no_path_leads_out_of_its_base(target: str, enabled: bool) -> None:
    error = refused(target, enabled=enabled)
    assert (error.answer.status, error.reason) == (400, "invalid_target")


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/training-token-capture/v1/models"),
        ("POST", "/training-token-capture/v1/messages/count_tokens"),
        ("GET", "/training-token-capture/v1/responses"),
        ("GET", "/training-token-capture"),
        ("GET", "/training%2Dtoken-capture/v1/models"),
    ],
)
def test_nothing_but_a_model_call_reaches_a_token_capture(method: str, path: str, enabled: bool) -> None:
    target = "/ng-rollout/r1" + path
    assert refused(target, method=method, enabled=enabled, keep_rollout_prefix=True).answer.status == 404
    # Without the prefix it is no path of the capture's.
    assert classified(target, method=method, enabled=enabled).route is Route.PASS_THROUGH
    called = "/ng-rollout/r1/training-token-capture/v1/responses"
    assert classified(called, enabled=enabled, keep_rollout_prefix=True).rollout == "r1"


@pytest.mark.parametrize("enabled", [True, False])
def test_other_paths_than_a_models_can_be_shut(enabled: bool) -> None:
    for target in ("/v1/models", "/ng-rollout/r1/v1/messages/count_tokens?x", "/v1/messages", CHAT_PATH):
        assert classified(target, enabled=enabled, model_paths_only=True)
    for target in ("/admin", "/", "/v1/embeddings", "/v1/chat/completions/", "/count_tokens", "/admin?/v1/models"):
        assert refused(target, enabled=enabled, model_paths_only=True).answer.status == 404
        assert classified(target, enabled=enabled)


def test_errors_have_the_dialects_shape() -> None:
    error = refused("/ng-rollout/r1/v1/messages", FRAME, enabled=False)
    assert json.loads(error.answer.body)["type"] == "error"
