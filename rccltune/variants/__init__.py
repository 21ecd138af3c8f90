"""The catalog of variants: what no tuner can switch, where it exists, and what sets it.

A variant is measured like a setting and never mixed with one. The shipped entries stand in
``data/variants.yaml``; users add their own in the same format (``docs/variants.md``).

* :func:`load_catalog` reads both (:func:`read_catalog` from a path), with every mistake of a
  user's file at once.
* :meth:`Catalog.find` turns what a user typed into an entry and its parameter.
* :func:`why_absent` says in one sentence why an entry cannot be measured at a :class:`Site`.
* :func:`resolve` turns an entry into the ``model.Variant`` that a launch is given.
* :func:`takes` says whether a call under it goes past the tuner.
"""

from __future__ import annotations

from rccltune.variants.availability import Site, why_absent
from rccltune.variants.calls import takes
from rccltune.variants.catalog import SHIPPED, Catalog, load_catalog, read_catalog
from rccltune.variants.describe import calls_of, releases_of, sets, status, table
from rccltune.variants.records import Acts, Calls, Needs, Parameter, Threshold, VariantSpec
from rccltune.variants.releases import KNOWN_RCCL, Library, Releases, parse_library
from rccltune.variants.resolving import Where, resolve, resolved_name

__all__ = [
    "KNOWN_RCCL",
    "SHIPPED",
    "Acts",
    "Calls",
    "Catalog",
    "Library",
    "Needs",
    "Parameter",
    "Releases",
    "Site",
    "Threshold",
    "VariantSpec",
    "Where",
    "calls_of",
    "load_catalog",
    "parse_library",
    "read_catalog",
    "releases_of",
    "resolve",
    "resolved_name",
    "sets",
    "status",
    "table",
    "takes",
    "why_absent",
]
