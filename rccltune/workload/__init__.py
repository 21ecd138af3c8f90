"""Workloads: what a job asked for, by the plugin's records and by Inspector's dumps."""
