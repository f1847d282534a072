"""The house whose history it is: its datasets, people and machines, and the words of OpenLineage about them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]

KAFKA = "kafka://broker-1.shop:9092"
WAREHOUSE = "postgres://warehouse.shop:5432"
HDFS = "hdfs://namenode.shop:8020"
METASTORE = "hive://metastore.shop:9083"
AIRFLOW = "http://airflow.shop:8080"
YARN = "yarn://shop"
HIVE = "hive://hiveserver.shop:10000"
FLINK = "http://flink.shop:8081"
DBT = "dbt://shop"
PEOPLE = ("ada", "grace", "edsger", "barbara")
_PRODUCER = "https://penstock.example/lineage/seed"


@dataclass(frozen=True)
class Table:
    """A dataset, with its columns and their types."""

    namespace: str
    name: str
    columns: Mapping[str, str]
    metastore: str | None = None
    tags: Mapping[str, str] = field(default_factory=dict)

    def said(self, *, columns_from: "Sequence[Table]" = (), **more: Json) -> Json:
        """Return it as an event names it, with the columns that come from others of the same name."""
        facets: Json = {"schema": facet(fields=[{"name": name, "type": kind} for name, kind in self.columns.items()])}
        if self.metastore is not None:
            table = {"namespace": METASTORE, "name": self.metastore, "type": "TABLE"}
            facets["symlinks"] = facet(identifiers=[table])
        if self.tags:
            tags = [{"key": key, "value": value, "source": "SEED"} for key, value in self.tags.items()]
            facets["tags"] = facet(tags=tags)
        if lineage := self._column_lineage(columns_from):
            facets["columnLineage"] = facet(fields=lineage)
        return {"namespace": self.namespace, "name": self.name, "facets": facets, **more}

    def _column_lineage(self, sources: "Sequence[Table]") -> Json:
        found: Json = {}
        for column in self.columns:
            fields = [
                {"namespace": each.namespace, "name": each.name, "field": column, "transformations": [_change(column)]}
                for each in sources
                if column in each.columns
            ]
            if fields:
                found[column] = {"inputFields": fields}
        return found


def _change(column: str) -> Json:
    kind = "AGGREGATION" if column in {"amount", "orders"} else "IDENTITY"
    return {"type": "DIRECT", "subtype": kind, "description": "", "masking": column == "email"}


def facet(**fields: Any) -> Json:
    """Return a facet."""
    return {"_producer": _PRODUCER, "_schemaURL": "https://openlineage.io/spec/facets/1-0-0/Facet.json", **fields}


RAW_ORDERS = Table(KAFKA, "orders.raw", {"order_id": "long", "customer_id": "long", "amount": "double", "day": "date"})
CLICKS = Table(KAFKA, "clicks", {"customer_id": "long", "page": "string", "time": "timestamp"})
SESSIONS = Table(KAFKA, "sessions", {"customer_id": "long", "pages": "int", "time": "timestamp"})
PRICES = Table("file", "/landing/prices.csv", {"product": "string", "price": "double"})
ORDERS = Table(HDFS, "/warehouse/sales.db/orders", RAW_ORDERS.columns, "sales.orders", {"domain": "sales"})
CUSTOMERS = Table(
    HDFS,
    "/warehouse/sales.db/customers",
    {"customer_id": "long", "email": "string", "amount": "double"},
    "sales.customers",
    {"domain": "sales", "pii": "true"},
)
DAILY = Table(WAREHOUSE, "shop.sales.daily_orders", {"day": "date", "orders": "long", "amount": "double"})
REVENUE = Table(WAREHOUSE, "shop.marts.revenue", {"day": "date", "amount": "double"}, tags={"domain": "finance"})
CHURN = Table(WAREHOUSE, "shop.marts.churn", {"customer_id": "long", "amount": "double", "pages": "int"})
REPORT = Table("file", "/reports/revenue.xlsx", {"day": "date", "amount": "double"})
