"""Superhero combat in trouble: whole runs on throwaway servers, each compared with what the simulator knows."""
