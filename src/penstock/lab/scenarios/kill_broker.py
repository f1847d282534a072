"""Three nodes, three replicas: the leader of a partition is killed with -9 while events come in and land."""

from penstock.broker.readiness import wait_until
from penstock.config.project import LocalCluster
from penstock.kafka import cluster as kafka_cluster
from penstock.kafka import topics
from penstock.lab.scenarios.arena import COMBAT
from penstock.lab.scenarios.driver_process import DriverProcess, driver
from penstock.lab.scenarios.play import play_fast
from penstock.lab.scenarios.scenario import Run
from penstock.lab.simulator import events
from penstock.lab.simulator.simulation import SimulationResult

NODES = 3
_EVENTS_A_GAME = 28
_SLICES = 20
_IN_STEP_S = 120.0


class _Trouble:
    """Kills a node after a third of the events and brings it back after two thirds, while more come in."""

    def __init__(self, run: Run, worker: DriverProcess) -> None:
        self._run = run
        self._worker = worker
        third = _about(run) // 3
        self._acts = [(third, self._let_some_land), (third + 1, self._kill), (2 * third, self._bring_back)]
        self._landed = 0

    def between(self, sent: int) -> None:
        """Do what is due; the kill comes right after records were handed over, so that some are on their way."""
        if self._acts and sent >= self._acts[0][0]:
            self._acts.pop(0)[1]()

    def _let_some_land(self) -> None:
        self._run.arena.step("waiting until some have landed", 0, 0)
        self._worker.reach(lambda: self._events() > 0, "some had landed")

    def _kill(self) -> None:
        arena = self._run.arena
        self._landed = self._events()
        leader = topics.describe(arena.admin, events.TOPIC).partitions[0].leader
        if leader is not None and (process := arena.cluster.node(leader).process()) is not None:
            process.kill()
            process.wait()
        self._run.fact("killed with -9: the leader of partition 0, node", str(leader))
        self._run.fact("events landed at the kill", self._landed)

    def _bring_back(self) -> None:
        arena = self._run.arena
        arena.step("waiting until more land without that node", 0, 0)
        self._worker.reach(lambda: self._events() > self._landed, "more had landed without the node")
        self._run.fact("events landed without that node", self._events() - self._landed)
        known = arena.cluster.existing()
        missing = len(known.nodes) - len(arena.cluster.running(known))
        self._run.expect("one node was dead until now", found=f"{missing} were", holds=missing == 1)
        arena.cluster.up(LocalCluster())

    def _events(self) -> int:
        status = self._run.arena.status()
        return status.events if status is not None else 0

    @property
    def is_over(self) -> bool:
        """Return whether everything that was planned took place."""
        return not self._acts


def _about(run: Run) -> int:
    """Guess how many events there will be."""
    return run.games.games * _EVENTS_A_GAME


def kill_broker(run: Run) -> SimulationResult:
    """Play, land, kill and bring back; done when everything has landed and every replica is in sync."""
    arena = run.arena
    file = arena.worker(COMBAT, speed="stream", batch={"max_events": 2000, "max_wait": "200ms"})
    with driver(arena.folder, file, "--master", arena.master) as worker:
        arena.step("starting the worker", 0, 0)
        worker.reach(lambda: arena.status() is not None, "it was ready")
        trouble = _Trouble(run, worker)
        slice_events = max(1, _about(run) // _SLICES)
        played = play_fast(arena, run.games, slice_events=slice_events, between=trouble.between)
        arena.step("landing the rest", 0, 0)
        worker.reach(arena.has_landed_all, "it had landed everything")
        worker.stop()
    wait_until(
        lambda: not kafka_cluster.describe(arena.admin).under_replicated,
        timeout_s=_IN_STEP_S,
        waiting_for="waiting until every replica is in sync",
    )
    run.expect("a node was killed and came back", found="too few events for it", holds=trouble.is_over)
    return played
