"""The REST interface of lineage, under `/v1`. Questions are asked by `lineage/query`; here is HTTP."""
