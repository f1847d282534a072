"""Java on this machine: finding it, its jars, its properties files, launching it."""
