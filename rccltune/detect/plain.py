"""A system as plain values for JSON: what a program may rely on."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rccltune.detect.records import Finding, Gpu, Oam, Severity, System, mode_text


def as_plain(system: System, findings: tuple[Finding, ...]) -> dict[str, Any]:
    """The whole answer; numbers as numbers, sources by field, link hops as one row per device."""
    return {
        "format": 1,
        "root": str(system.root),
        "host": system.host,
        "status": system.status,
        "reason": system.reason,
        "vendor": system.vendor,
        "product": system.product,
        "arch": system.arch,
        "device_id": _hex(system.device_id),
        "compute_units": system.cu_count,
        "mode": mode_text(system.mode),
        "mixed": system.is_mixed,
        "n_devices": len(system.gpus),
        "n_hidden": system.n_hidden,
        "driver": system.driver,
        "kernel": system.kernel,
        "rocm": system.rocm,
        "boot_id": system.boot_id,
        "kfd_generation": system.generation,
        "oams": [_oam(oam) for oam in system.oams],
        "devices": [_gpu(gpu) for gpu in system.gpus],
        "xgmi_hops": hop_rows(system),
        "libraries": [asdict(lib) | {"path": str(lib.path)} for lib in system.libraries],
        "benchmarks": [asdict(b) | {"path": str(b.path)} for b in system.benchmarks],
        "launchers": None
        if system.starters is None
        else [asdict(s) | {"path": str(s.path)} for s in system.starters],
        "amdsmi": _smi(system),
        "disagreements": [asdict(d) | {"said": dict(d.said)} for d in system.disagreements],
        "findings": [finding_as_plain(finding) for finding in findings],
    }


def finding_as_plain(finding: Finding) -> dict[str, Any]:
    """One finding."""
    return asdict(finding) | {"severity": finding.severity.value}


def hop_rows(system: System) -> list[str]:
    """Hops from each device to all: ``- 0 1 ?``; a dash where there is no link."""
    if not system.links:
        return []
    cells = {(link.origin, link.target): link.hops for link in system.links}
    indices = [gpu.index for gpu in system.gpus]

    def cell(origin: int, target: int) -> str:
        if (origin, target) not in cells:
            return "-"
        hops = cells[origin, target]
        return "?" if hops is None else str(hops)

    return [" ".join(cell(a, b) for b in indices) for a in indices]


def verdict(findings: tuple[Finding, ...], *, strict: bool) -> bool:
    """Whether a sweep may run."""
    bad = (Severity.STOPS, Severity.WARNS) if strict else (Severity.STOPS,)
    return not any(finding.severity in bad for finding in findings)


def _oam(oam: Oam) -> dict[str, Any]:
    plain = asdict(oam)
    mode = plain.pop("mode")
    return plain | {
        "device_id": _hex(oam.device_id),
        "compute": mode["compute"] if mode else None,
        "memory": mode["memory"] if mode else None,
        "mode": oam.mode_text,
        "sources": dict(oam.sources),
    }


def _gpu(gpu: Gpu) -> dict[str, Any]:
    return asdict(gpu) | {
        "address": gpu.address,
        "device_id": _hex(gpu.device_id),
        "sources": dict(gpu.sources),
    }


def _smi(system: System) -> dict[str, Any]:
    plain = asdict(system.smi)
    for gpu in plain["gpus"]:
        gpu["device_id"] = _hex(gpu["device_id"])
        gpu["errors"] = dict(gpu["errors"])
    return plain


def _hex(value: int | None) -> str | None:
    return f"0x{value:x}" if value is not None else None
