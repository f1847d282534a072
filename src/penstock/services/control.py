"""Starting, stopping and inspecting the services of a project, for commands."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

from penstock.broker import ports
from penstock.broker.readiness import wait_until
from penstock.config import local_services
from penstock.config.local_services import ServiceAddress, ServiceState
from penstock.config.service_names import SERVICE_NAMES, ServiceName
from penstock.config.services import MODELS, AnyService, Services
from penstock.errors import BadInput, Conflict, EnvironmentNotReady
from penstock.interpreter import SAFE_PYTHON
from penstock.private import make_private
from penstock.services import launch, status
from penstock.services.catalog import service_of
from penstock.services.context import ServiceContext
from penstock.services.launch import Launch
from penstock.services.service import Service
from penstock.services.supervisor import STOP_TIMEOUT_S, console_log

_READY_S = 120.0
_LOOK_EVERY_S = 0.05
_TRIES = 2


class LocalServices:
    """The services of one project."""

    def __init__(self, context: ServiceContext) -> None:
        self._context = context

    def up(self, wanted: Services) -> dict[ServiceName, ServiceAddress]:
        """Start what is not running, in order; return where each answers, after a real request went through it."""
        named = wanted.named()
        missing = {name: each for name, each in named.items() if not self._is_running(name)}
        states = {name: self._settle(name, settings) for name, settings in missing.items()}
        plans = {name: self._prepare(missing[name], state) for name, state in states.items()}
        for name, plan in plans.items():
            self._start(states[name], plan)
        return {name: self.answering(name, settings) for name, settings in named.items()}

    def start(self, name: ServiceName, settings: AnyService) -> None:
        """Start a service in the background, after stopping it if it runs; `answering` waits for it."""
        state = self._settle(name, settings)
        # What can fail comes first, such as fetching a plugin that is misspelt: until then the service goes on.
        self._start(state, self._prepare(settings, state))

    def restart(self, name: ServiceName, wanted: Services) -> ServiceAddress:
        """Stop a service and start it again, with the settings of now."""
        known = local_services.load(self._context.home, name)
        if known is None:
            raise local_services.never_started(name)
        settings = wanted.named().get(name) or _as_before(known)
        self.start(name, settings)
        return self.answering(name, settings)

    def _prepare(self, settings: AnyService, state: ServiceState) -> Launch:
        make_private(self._context.folder(state.name))
        return service_of(settings).prepare(self._context, state)

    def _start(self, state: ServiceState, plan: Launch) -> None:
        self._context.on_progress(f"starting {state.name}")
        stop(self._context.home, state.name)  # what a supervisor that was killed has left
        folder = self._context.folder(state.name)
        state.save(folder)
        plan.save(folder)
        _start_supervisor(folder, plan)

    def answering(self, name: ServiceName, settings: AnyService) -> ServiceAddress:
        """Wait until a started service has handled a real request; return its address."""
        address = local_services.local_service(self._context.home, name)
        self._context.on_progress(f"waiting until {name} answers")
        self._wait(name, service_of(settings), address)
        return address

    def _wait(self, name: ServiceName, service: Service, address: ServiceAddress) -> None:
        folder = self._context.folder(name)

        def answered() -> bool:
            found = status.load(folder)
            if found.state in {"crashed", "unsupervised"} or (found.restarts >= _TRIES and found.state == "restarting"):
                stop(self._context.home, name)
                raise EnvironmentNotReady(
                    f"{name} does not start: {last_words(folder) or found.reason}",
                    safe="It was stopped again; Kafka runs",
                    fix=f"Read its log with: penstock logs {name}",
                )
            service.probe(self._context, address)
            return True

        fix = f"Read its log with: penstock logs {name}"
        wait_until(answered, timeout_s=_READY_S, waiting_for=f"waiting for {name}", fix=fix)

    def _settle(self, name: ServiceName, settings: AnyService) -> ServiceState:
        """Work out where a service listens; raise if it cannot listen there."""
        context = self._context
        if not settings.is_local and not context.secure:
            raise BadInput(
                f"{name} would listen on {settings.host}, where anybody could use it without a login",
                safe="Nothing was started",
                fix="Leave `host` out, or make the cluster secure: penstock up --secure",
            )
        known = local_services.load(context.home, name)
        is_left = bool(launch.left_behind(context.folder(name)))
        port = settings.port or (known.port if known else 0)
        if settings.port is None and not is_left:
            port = _first_free(settings.host, [port, settings.usual_port])
        port = port or ports.find_free(settings.host, 1)[0]
        if not is_left or known is None or (port, settings.host) != (known.port, known.host):
            ports.require_free(
                settings.host,
                [port],
                safe=f"No service was started; {name} needs the port",
                fix=f"Free it, or set services.{name}.port in penstock.yaml; 0 picks a free one",
            )
        secure = context.secure and settings.has_login
        has_front = service_of(settings).has_front(secure=secure)
        return ServiceState(
            name=name,
            host=settings.host,
            port=port,
            inner_port=ports.find_free("127.0.0.1", 1)[0] if has_front else None,
            secure=secure,
            login=secure or settings.always_asks or _acts_for_somebody(settings, context),
        )

    def _is_running(self, name: ServiceName) -> bool:
        return is_running(self._context.home, name)


def _acts_for_somebody(settings: AnyService, context: ServiceContext) -> bool:
    """Return whether a service does what others may not do: everybody on this machine could have it done."""
    return (settings.acts_as_user and context.connection.knows_clients) or (
        settings.acts_elsewhere and context.has_logins_elsewhere
    )


def is_running(home: Path, name: ServiceName) -> bool:
    """Return whether a service has a supervisor."""
    return status.supervisor_of(local_services.folder_of(home, name)) is not None


def _first_free(host: str, candidates: Sequence[int | None]) -> int:
    """Return the first of these ports that is free; 0 if none is."""
    for port in filter(None, candidates):
        with suppress(Conflict):
            ports.require_free(host, [port])
            return port
    return 0


def known_services(home: Path) -> list[ServiceName]:
    """Return the services that were started here, in the order in which they are started."""
    return [name for name in SERVICE_NAMES if local_services.load(home, name) is not None]


def stop(home: Path, name: ServiceName) -> bool:
    """Stop a service, and after a while by force; tell whether anything ran. Its data stay."""
    folder = local_services.folder_of(home, name)
    supervisor = status.supervisor_of(folder)
    if supervisor is not None:
        _end([supervisor], 2 * STOP_TIMEOUT_S)
    left = launch.left_behind(folder)
    _end(left, STOP_TIMEOUT_S)
    if folder.exists() and (left or supervisor):
        status.ServiceStatus(state="stopped").save(folder)
    return bool(supervisor or left)


def last_words(folder: Path) -> str:
    """Return the last complaint in a service's logs."""
    for path in (folder / "logs" / "service.log", console_log(folder)):
        if path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-200:]
            errors = [line for line in lines if " ERROR " in line or "Exception" in line or "Caused by" in line]
            if errors:
                return errors[-1].strip()[:300]
    return ""


def _end(processes: list[psutil.Process], timeout_s: float) -> None:
    for each in processes:
        try:
            each.terminate()
        except psutil.NoSuchProcess:
            continue
    _, alive = psutil.wait_procs(processes, timeout=timeout_s)
    for each in alive:
        try:
            each.kill()
            each.wait(timeout_s)
        except psutil.NoSuchProcess:
            continue


def _start_supervisor(folder: Path, plan: Launch) -> None:
    status.ServiceStatus().save(folder)
    command = [*SAFE_PYTHON, "-m", "penstock.services.supervisor", str(folder)]
    redirections = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    # posix_spawn rather than Popen: nobody in this process waits for a supervisor.
    variables = launch.environment(plan.programs)
    pid = os.posix_spawn(command[0], command, variables, file_actions=redirections, setsid=True)
    while status.supervisor_of(folder) is None:
        if os.waitpid(pid, os.WNOHANG)[0]:
            raise EnvironmentNotReady(f"the supervisor in {folder} did not start")
        time.sleep(_LOOK_EVERY_S)


def _as_before(known: ServiceState) -> AnyService:
    """Return the settings of a service that was started without a project file."""
    return MODELS[known.name](port=known.port)
