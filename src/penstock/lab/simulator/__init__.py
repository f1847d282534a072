"""Superhero combat: games that feed the pipelines, and the truth to compare their tables with."""
