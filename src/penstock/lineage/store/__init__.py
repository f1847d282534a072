"""Where lineage is kept: tables, migrations, writing, cleaning. The one place that knows which database it is."""
