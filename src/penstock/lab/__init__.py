"""The lab: simulator, scenarios, drills, benches and the demo."""
