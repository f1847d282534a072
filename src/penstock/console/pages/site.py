"""The pages of a console, on the application that has its REST interface."""

from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Annotated

from fastapi import FastAPI, Form, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from nicegui import app as nicegui_app
from nicegui import ui

from penstock.console.api.sign_in import set_session, sign_in
from penstock.console.asking import SESSION_COOKIE
from penstock.console.errors import ApiError, ErrorBody, answer
from penstock.console.pages import (
    access,
    connectors,
    dead_letters,
    groups,
    lab,
    lab_run,
    lineage,
    messages,
    nodes,
    overview,
    pipelines,
    schemas,
    tables,
    topic,
    topics,
)
from penstock.console.pages.frame import register

_SIGN_IN = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Sign in · Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/console.css"></head><body><main class="panel signin">
<span class="h1">Penstock</span><form method="post" action="/sign-in" style="display:contents">{problem}
<label>User<input name="user" autocomplete="username" required autofocus></label>
<label>Password<input name="password" type="password" autocomplete="current-password" required></label>
<button>Sign in</button></form></main><script src="/static/theme.js"></script></body></html>"""
_NO_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>No such page · Penstock</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/console.css"></head><body><main class="panel signin">
<span class="h1">There is no such page</span><a href="/">Overview</a></main>
<script src="/static/theme.js"></script></body></html>"""
_BROKEN = _NO_PAGE.replace("No such page", "Defect").replace(
    "There is no such page", "This page cannot be drawn: a defect in Penstock. The console's log says more"
)
_PROBLEM = '<div class="concern error" role="alert">{}</div>'


def add_pages(app: FastAPI) -> None:
    """Put every page on the application; its REST routes come first. There is one such application in a process."""
    app.mount("/static", StaticFiles(directory=Path(__file__).parent / "static"))

    @app.get("/sign-in", include_in_schema=False)
    def ask() -> HTMLResponse:
        return HTMLResponse(_SIGN_IN.format(problem=""))

    @app.post("/sign-in", include_in_schema=False)
    def answer(
        request: Request,
        user: Annotated[str, Form(max_length=63)],
        password: Annotated[str, Form(max_length=1024)],
    ) -> Response:
        try:
            access = sign_in(app.state.console, user, password, request.client.host if request.client else "")
        except ApiError as error:
            problem = _PROBLEM.format(escape(error.body.message.capitalize()))
            return HTMLResponse(_SIGN_IN.format(problem=problem), error.status, error.headers)
        response = RedirectResponse("/", status_code=303)
        set_session(response, access, is_https=request.url.scheme == "https")
        return response

    @app.post("/sign-out", include_in_schema=False)
    def leave() -> RedirectResponse:
        response = RedirectResponse("/sign-in", status_code=303)
        response.delete_cookie(SESSION_COOKIE)
        return response

    register(app, "/", "Overview", overview.draw)
    register(app, "/topics", "Topics", topics.draw, of_cluster=True)
    register(app, "/topics/{topic}", "Topic", topic.draw, of_cluster=True)
    register(app, "/topics/{topic}/messages", "Messages", messages.draw, of_cluster=True)
    register(app, "/groups", "Groups", groups.draw_list, of_cluster=True)
    register(app, "/groups/{group:path}", "Group", groups.draw, of_cluster=True)
    register(app, "/pipelines", "Pipelines", pipelines.draw_list)
    register(app, "/pipelines/{name}", "Pipeline", pipelines.draw)
    register(app, "/tables", "Tables", tables.draw_list)
    register(app, "/tables/{table:path}", "Table", tables.draw)
    register(app, "/nodes", "Nodes", nodes.draw_list, of_cluster=True)
    register(app, "/nodes/{node}", "Node", nodes.draw, of_cluster=True)
    register(app, "/lineage", "Lineage", lineage.draw)
    register(app, "/schemas", "Schemas", schemas.draw_list)
    register(app, "/schemas/{subject:path}", "Schema", schemas.draw)
    register(app, "/connectors", "Connectors", connectors.draw_list)
    register(app, "/connectors/{name}", "Connector", connectors.draw)
    register(app, "/lab", "Lab", lab.draw)
    register(app, "/lab/runs/{run_id}", "Run", lab_run.draw)
    register(app, "/access", "Access", access.draw)
    register(app, "/dead-letters", "Dead letters", dead_letters.draw)
    # NiceGUI's own answer logs the address, which may be anything, and keeps a page in memory for a while.
    nicegui_app.add_exception_handler(404, _not_there)
    # Its other one shows what was raised, with paths of this machine.
    nicegui_app.add_exception_handler(Exception, _broken)
    ui.run_with(app, title="Penstock", dark=None, tailwind=False, show_welcome_message=False)


def _not_there(request: Request, _: Exception) -> Response:
    if request.url.path.startswith("/api/"):  # programs asked, and read the shape of every other error
        fix = "All requests are described at /api/v1/openapi.json"
        return answer(HTTPStatus.NOT_FOUND, ErrorBody(code="not_found", message="there is no such request", fix=fix))
    return HTMLResponse(_NO_PAGE, 404)


def _broken(_: Request, __: Exception) -> Response:
    """Answer for a page that raises; the server logs what it was."""
    return HTMLResponse(_BROKEN, 500)
