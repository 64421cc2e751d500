# SPDX-License-Identifier: Apache-2.0
import aiohttp
import pytest
from history_delta_server.kinds import Address
from prometheus_client.parser import text_string_to_metric_families


async def get(gateway, path: str) -> tuple[int, str]:
    address = gateway.server.admin_address
    connector = aiohttp.UnixConnector(address.path) if address.path is not None else None
    url = f"http://{'admin' if address.path is not None else address}{path}"
    async with aiohttp.ClientSession(connector=connector) as session, session.get(url) as response:
        return response.status, await response.text()


@pytest.fixture(params=["tcp", "unix"])
def admin_listen(request, tmp_path) -> Address:
    return Address("127.0.0.1", 0) if request.param == "tcp" else Address(path=str(tmp_path / "admin.sock"))


async def test_health_ready_and_metrics(start_model, start_gateway, shim, admin_listen) -> None:
    gateway = await start_gateway(await start_model(), admin_listen=admin_listen)
    assert (await get(gateway, "/health"))[0] == 200
    assert (await get(gateway, "/ready"))[0] == 200
    path = "/ng-rollout/r1/v1/chat/completions"
    first, second = shim.chat("x" * 1000), shim.chat("x" * 1000, "y")
    await gateway.post(path, first, shim.headers(delivery="0" * 32))
    await gateway.post(path, shim.frame(first, second), shim.frame_headers(delivery="1" * 32))
    await gateway.until(lambda: len(gateway.log("call")) == 2)
    status, text = await get(gateway, "/metrics")
    assert status == 200
    samples = {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    assert samples["history_delta_calls_total", "full"] == 1
    assert samples["history_delta_calls_total", "delta"] == 1
    assert samples["history_delta_calls_total", "pass-through"] == 0
    assert samples["history_delta_full_sends_total", "unstated"] == 1
    assert samples["history_delta_rebuilt_bytes_total",] == len(first) + len(second)
    assert samples["history_delta_received_bytes_total",] == len(first) + len(shim.frame(first, second))
    assert samples["history_delta_saved_bytes_total",] == len(second) - len(shim.frame(first, second))
    assert samples["history_delta_histories",] == 1
    assert samples["history_delta_histories_messages",] == 2
    assert samples["history_delta_histories_bytes",] > 1000
    assert samples["history_delta_rebuild_seconds_count",] == 2
    assert samples["history_delta_deliveries",] == 2
    assert samples["history_delta_calls_in_flight",] == 0


async def test_a_server_that_is_stopping_is_not_ready_but_healthy(start_model, start_gateway) -> None:
    gateway = await start_gateway(await start_model())
    await gateway.server.drain(0)
    assert (await get(gateway, "/ready"))[0] == 503
    assert (await get(gateway, "/health"))[0] == 200


async def test_the_sandboxes_port_serves_none_of_it(start_model, start_gateway) -> None:
    async def refuse(exchange) -> None:
        await exchange.respond(b"the model's own", b"404 Not Found")

    gateway = await start_gateway(await start_model(refuse))
    for path in ("/health", "/ready", "/metrics"):
        response = await gateway.post(path, None, method="GET")
        assert (response.status, response.body) == (404, b"the model's own")
