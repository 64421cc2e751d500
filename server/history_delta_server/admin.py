# SPDX-License-Identifier: Apache-2.0
"""/health, /ready and /metrics, on an address of their own: a sandbox must not see or steer its own rollout."""

from collections.abc import Callable

from aiohttp import web

from .metrics import Metrics


def admin_app(metrics: Metrics, is_ready: Callable[[], bool]) -> web.Application:
    async def health(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(request: web.Request) -> web.Response:
        if is_ready():
            return web.json_response({"status": "ready"})
        return web.json_response({"status": "not ready"}, status=503)

    async def show_metrics(request: web.Request) -> web.Response:
        return web.Response(body=metrics.render(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app = web.Application()
    app.add_routes([web.get("/health", health), web.get("/ready", ready), web.get("/metrics", show_metrics)])
    return app
