"""The history of the store's schema, as Alembic has it: one file for each step."""
