"""What a launch did: faults, traffic, and counts of what the hardware would have executed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Something that hardware would punish, or not even notice: its kind, the first occurrence in words, how often."""

    kind: str
    message: str
    count: int

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}" + (f" [{self.count} times]" if self.count > 1 else "")


@dataclass(frozen=True)
class ArrayTraffic:
    """Bytes of an array that warp instructions asked for, each once an instruction, and the 32-byte sectors moved."""

    read: int
    written: int
    read_sectors: int
    write_sectors: int


@dataclass(frozen=True)
class SiteTraffic:
    """What the warp instructions of one line of the source did to memory."""

    place: str
    what: str
    requests: int
    bytes: int
    sectors: int
    wavefronts: int
    ideal: int


@dataclass(frozen=True)
class Report:
    """All about one launch."""

    faults: tuple[Fault, ...]
    arrays: dict[str, ArrayTraffic]
    sites: tuple[SiteTraffic, ...]
    width_bytes: dict[int, int]
    counts: dict[str, int]

    @classmethod
    def from_json(cls, text: str, place: Callable[[int], str]) -> Report:
        """Read what the engine wrote, which has numbers for lines of the source."""
        data = json.loads(re.sub(r"line (\d+)", lambda found: place(int(found[1])), text))
        return cls(
            tuple(Fault(**fault) for fault in data["faults"]),
            {name: ArrayTraffic(**array) for name, array in data["arrays"].items()},
            tuple(SiteTraffic(place(site.pop("line")), **site) for site in data["sites"]),
            {int(width): count for width, count in data["width_bytes"].items()},
            data["counts"],
        )

    @property
    def kinds(self) -> set[str]:
        """Which kinds of faults there were."""
        return {fault.kind for fault in self.faults}

    def check(self) -> Report:
        """Raise AssertionError with all faults in words, if there are any."""
        assert not self.faults, "\n".join(str(fault) for fault in self.faults)
        return self

    @property
    def global_bytes(self) -> int:
        """Bytes of global memory asked for by all warp instructions."""
        return sum(self.width_bytes.values())

    @property
    def sectors(self) -> int:
        """Sectors of 32 bytes moved by all warp instructions."""
        return sum(site.sectors for site in self.sites)

    @property
    def sector_efficiency(self) -> float:
        """Share of the moved sectors that was asked for; 1 if nothing moved."""
        return self.global_bytes / (32 * self.sectors) if self.sectors else 1.0

    @property
    def share_by_16_bytes(self) -> float:
        """Share of the global bytes that moved by accesses of 16 bytes a thread; 1 if nothing moved."""
        return self.width_bytes[16] / self.global_bytes if self.global_bytes else 1.0

    @property
    def wavefronts(self) -> int:
        """Wavefronts of shared memory."""
        return sum(site.wavefronts for site in self.sites)

    @property
    def wavefront_excess(self) -> float:
        """Wavefronts of shared memory over what they would be without bank conflicts; 1 if there were none."""
        ideal = sum(site.ideal for site in self.sites)
        return self.wavefronts / ideal if ideal else 1.0

    def table(self) -> str:
        """Return the traffic line by line of the source."""
        head = f"{'place':<24}{'what':<18}{'requests':>10}{'bytes':>12}{'sectors':>10}{'wavefronts':>12}{'ideal':>10}"
        return "\n".join(
            (
                head,
                *(
                    f"{s.place:<24}{s.what:<18}{s.requests:>10}{s.bytes:>12}{s.sectors:>10}{s.wavefronts:>12}{s.ideal:>10}"
                    for s in self.sites
                ),
            )
        )
