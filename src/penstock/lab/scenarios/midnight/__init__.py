"""The scenario `midnight`: a day of lineage events with its spikes, and a store that has to follow."""
