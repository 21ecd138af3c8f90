"""Zones to rules, rules to rule files and back, and the plugin that answers by them."""
