"""The lab: simulator, scenarios, drills, benches and the demo. Importing it raises unless its extra is installed."""

from penstock.extras import require

require("lab", "the lab (sim, scenario, drill, bench, demo)")
