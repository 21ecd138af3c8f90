"""Measuring a site: options, site, ledger, launches and their samples, round by round."""
