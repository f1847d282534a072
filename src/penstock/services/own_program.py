"""A command of Penstock's own, as a program of a service: it sees the settings that `up` saw.

Where Kafka knows its clients it acts as one of them, on a secure cluster as the administrator, so it lets in only who
has its login, as other services do.
"""

import subprocess

from penstock.config.local_services import ServiceState
from penstock.config.service_names import ServiceName
from penstock.errors import EnvironmentNotReady
from penstock.interpreter import SAFE_PYTHON
from penstock.services.context import ServiceContext
from penstock.services.launch import Program


def own_program(context: ServiceContext, name: str, *command: str) -> Program:
    """Return what runs `penstock COMMAND`."""
    start = (*SAFE_PYTHON, "-m", "penstock", *context.root, "--home", str(context.home))
    return Program(name=name, command=(*start, *command), variables=context.variables)


def place(context: ServiceContext, state: ServiceState) -> tuple[str, ...]:
    """Return the options that say where a command listens, with a certificate of the cluster's if it is secure."""
    options = ("--host", state.host, "--port", str(state.port))
    if not state.secure:
        return options
    certificate = str(context.certificate(state.name, state.host))
    return (*options, "--certificate", certificate, "--key", certificate)


def have_user(context: ServiceContext, name: ServiceName, *options: str) -> None:
    """Have the service's own login among the users that `penstock NAME user` looks after."""
    login = str(context.login(name))
    add = own_program(context, "user", name, "user", "add", name, "--password-file", login, *options)
    done = subprocess.run(add.command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        said = done.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise EnvironmentNotReady(f"the login of {name} could not be made: {said[0]}", safe="Nothing was started")
