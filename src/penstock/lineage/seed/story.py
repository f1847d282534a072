"""What happens in the house: each story is some runs that belong together, as their producers would emit them."""

import datetime
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.lineage.seed import house
from penstock.lineage.seed.house import Json, Table, facet
from penstock.uuid7 import uuid7

_SPEC = "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent"
_FAILS = 0.04
Time = datetime.datetime


@dataclass(frozen=True)
class Run:
    """One run: who it is, and what started it."""

    id: str
    namespace: str
    name: str
    job_type: Json
    parent: "Run | None" = None

    def root(self) -> "Run":
        """Return the run that all began with."""
        return self if self.parent is None else self.parent.root()


class EventWriter:
    """Collects the events of stories. The same dice make the same story."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self.events: list[Json] = []
        self.runs = 0

    def run(self, at: Time, job: tuple[str, str], kind: str, parent: Run | None = None) -> Run:
        """Begin a run of a kind such as `SPARK APPLICATION`; its id has the time in it."""
        self.runs += 1
        run_id = uuid7(int(at.timestamp() * 1000), self._dice.getrandbits(80))
        integration, _, job_type = kind.partition(" ")
        processing = "STREAMING" if integration == "FLINK" else "BATCH"
        said = facet(processingType=processing, integration=integration, jobType=job_type)
        return Run(str(run_id), *job, said, parent)

    def emit(
        self,
        state: str,
        at: Time,
        run: Run,
        facets: Json,
        *,
        inputs: Sequence[Json] = (),
        outputs: Sequence[Json] = (),
    ) -> None:
        """Add an event. Facets are the run's, but for `sql`, which is the job's."""
        of_run = {name: content for name, content in facets.items() if name != "sql"}
        of_job = {"jobType": run.job_type, **{name: facets[name] for name in ("sql",) if name in facets}}
        if run.parent is not None:
            root = run.parent.root()
            of_run["parent"] = facet(
                run={"runId": run.parent.id},
                job={"namespace": run.parent.namespace, "name": run.parent.name},
                root={"run": {"runId": root.id}, "job": {"namespace": root.namespace, "name": root.name}},
            )
        self.events.append(
            {
                "eventTime": at.isoformat(timespec="milliseconds"),
                "eventType": state,
                "producer": "https://penstock.example/lineage/seed",
                "schemaURL": _SPEC,
                "run": {"runId": run.id, "facets": of_run},
                "job": {"namespace": run.namespace, "name": run.name, "facets": of_job},
                "inputs": list(inputs),
                "outputs": list(outputs),
            }
        )

    def ends(
        self, at: Time, run: Run, facets: Json, sources: Sequence[Table] = (), target: Table | None = None
    ) -> None:
        """Emit how a run ended, with what it read and wrote; one in 25 fails."""
        if self._dice.random() < _FAILS:
            failed = {"errorMessage": facet(message="no space left on device", programmingLanguage="JAVA")}
            self.emit("FAIL", at, run, facets | failed, inputs=[each.said() for each in sources])
            return
        rows = self._dice.randrange(1_000, 1_000_000)
        read = facet(rowCount=rows, size=rows * 80, fileCount=self._dice.randrange(1, 40))
        written = {"outputStatistics": facet(rowCount=rows // 2, size=rows * 30, fileCount=self._dice.randrange(1, 10))}
        outputs = [] if target is None else [target.said(columns_from=sources, outputFacets=written)]
        inputs = [each.said(inputFacets={"inputStatistics": read}) for each in sources]
        self.emit("COMPLETE", at, run, facets, inputs=inputs, outputs=outputs)

    def later(self, at: Time, least_s: float, most_s: float) -> Time:
        """Return a time some seconds after another."""
        return at + datetime.timedelta(seconds=round(self._dice.uniform(least_s, most_s), 3))

    def person(self) -> str:
        """Return somebody."""
        return self._dice.choice(house.PEOPLE)

    def number(self) -> int:
        """Return a number for a name."""
        return self._dice.randrange(1, 10_000)


def _engine(name: str, version: str) -> Json:
    return {"processing_engine": facet(name=name, version=version, openlineageAdapterVersion="1.53.0")}


def _sql(query: str) -> Json:
    return {"sql": facet(query=query)}


def spark(writer: EventWriter, at: Time, parent: Run | None = None) -> Time:
    """Emit the events of a Spark application that loads orders; return when it ended."""
    application = writer.run(at, (house.YARN, "load_orders"), "SPARK APPLICATION", parent)
    number = f"application_{int(at.timestamp())}_{writer.number():04}"
    details = facet(
        master="yarn",
        appName="load_orders",
        applicationId=number,
        userName=writer.person(),
        historyUrl=f"http://history.shop:18081/history/{number}",
    )
    said = {"spark_applicationDetails": details, **_engine("spark", "4.2.0")}
    writer.emit("START", at, application, said)
    begun = writer.later(at, 5, 30)
    name = "load_orders.execute_insert_into_hadoop_fs_relation_command"
    command = writer.run(begun, (house.YARN, name), "SPARK SQL_JOB", application)
    outputs = [house.ORDERS.said(columns_from=[house.RAW_ORDERS])]
    writer.emit("START", begun, command, said, inputs=[house.RAW_ORDERS.said()], outputs=outputs)
    done = writer.later(begun, 20, 900)
    query = _sql("INSERT INTO sales.orders SELECT order_id, customer_id, amount, day FROM raw")
    writer.ends(done, command, said | query, [house.RAW_ORDERS], house.ORDERS)
    ended = writer.later(done, 1, 5)
    writer.ends(ended, application, said)
    return ended


def airflow(writer: EventWriter, at: Time) -> Time:
    """Emit the events of a DAG whose first task submits Spark and whose second writes a report."""
    dag = writer.run(at, (house.AIRFLOW, "shop_daily"), "AIRFLOW DAG")
    common = {
        "dag": {"dag_id": "shop_daily", "owner": "ada"},
        "dagRun": {"run_id": f"scheduled__{at.isoformat()}", "run_type": "scheduled"},
    }
    said = _engine("Airflow", "2.10.5")
    writer.emit("START", at, dag, said | {"airflowDagRun": facet(**common)})
    now = at
    for task, operator in (("load_orders", "SparkSubmitOperator"), ("write_report", "PythonOperator")):
        now = writer.later(now, 1, 60)
        run = writer.run(now, (house.AIRFLOW, f"shop_daily.{task}"), "AIRFLOW TASK", dag)
        named = {"task_id": task, "operator_class": operator}
        task_facets = {**said, "airflow": facet(**common, task=named, taskInstance={"try_number": 1}, taskUuid=run.id)}
        writer.emit("START", now, run, task_facets)
        if task == "load_orders":
            now = spark(writer, now, run)
            writer.ends(now, run, task_facets)
        else:
            now = writer.later(now, 2, 40)
            writer.ends(now, run, task_facets, [house.REVENUE], house.REPORT)
    now = writer.later(now, 1, 5)
    writer.ends(now, dag, said)
    return now


def dbt(writer: EventWriter, at: Time) -> Time:
    """Emit the events of a run of dbt with its models."""
    said = _engine("dbt", "1.9.4")
    invocation = writer.run(at, (house.DBT, "dbt-run-shop"), "DBT JOB")
    writer.emit("START", at, invocation, said | {"dbt_run": facet(invocation_id=invocation.id, project_name="shop")})
    now = at
    for target, sources, query in (
        (house.DAILY, [house.ORDERS], "create table daily_orders as select day, count(*), sum(amount) from orders"),
        (house.REVENUE, [house.DAILY], "create table revenue as select day, amount from daily_orders"),
        (house.CHURN, [house.CUSTOMERS, house.SESSIONS], "create table churn as select * from customers, sessions"),
    ):
        now = writer.later(now, 1, 20)
        model = target.name.rpartition(".")[2]
        run = writer.run(now, (house.DBT, f"model.shop.{model}"), "DBT MODEL", invocation)
        writer.emit("START", now, run, said)
        now = writer.later(now, 2, 120)
        writer.ends(now, run, said | _sql(query), sources, target)
    now = writer.later(now, 1, 3)
    writer.ends(now, invocation, said)
    return now


def hive(writer: EventWriter, at: Time) -> Time:
    """Emit the events of a query in somebody's session."""
    run = writer.run(at, (house.HIVE, "createtable_as_select.sales.customers"), "HIVE QUERY")
    ended = writer.later(at, 5, 600)
    session = facet(
        creationTime=at.isoformat(),
        username=writer.person(),
        clientIp="10.0.0.7",
        sessionId=f"session-{writer.number()}",
    )
    said = {
        "hive_session": session,
        "hive_query": facet(queryId=f"hive_{run.id}", operationName="CREATETABLE_AS_SELECT"),
        **_engine("hive", "4.0.1"),
        **_sql(
            "CREATE TABLE sales.customers AS SELECT customer_id, email, sum(amount) FROM sales.orders GROUP BY 1, 2"
        ),
    }
    writer.ends(ended, run, said, [house.ORDERS], house.CUSTOMERS)
    return ended


def custom(writer: EventWriter, at: Time) -> Time:
    """Emit the events of a custom program."""
    run = writer.run(at, ("shop://scripts", f"import_prices_{writer.number() % 5}"), "CUSTOM JOB")
    writer.emit("START", at, run, {})
    ended = writer.later(at, 1, 60)
    writer.ends(ended, run, {}, [house.PRICES], house.DAILY)
    return ended


def flink(writer: EventWriter, at: Time, until: Time) -> None:
    """Emit the events of a streaming job that keeps running, every hour."""
    run = writer.run(at, (house.FLINK, "sessions"), "FLINK JOB")
    said = {"flink_job": facet(jobId=f"{writer.number():08x}"), **_engine("flink", "2.0.0")}
    now, state = at, "START"
    while now < until:
        outputs = [house.SESSIONS.said(columns_from=[house.CLICKS])]
        writer.emit(state, now, run, said, inputs=[house.CLICKS.said()], outputs=outputs)
        now, state = now + datetime.timedelta(hours=1), "RUNNING"


Story = Callable[[EventWriter, Time], Time]
STORIES: tuple[tuple[Story, int, int], ...] = (
    (airflow, 5, 3),
    (spark, 2, 4),
    (dbt, 4, 2),
    (hive, 1, 3),
    (custom, 1, 4),
)
"""Each with the number of its runs and how often it happens, beside the others."""
