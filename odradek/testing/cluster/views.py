"""Views that a test has of a cluster: records with what became of them, requests, and what happened when."""

from dataclasses import dataclass
from itertools import groupby

LANE_HEIGHT, LEFT, WIDTH = 26, 130, 1000
COLOURS = {"test": "#c0392b", "zookeeper": "#2471a3"}
OTHER_COLOUR = "#566573"


@dataclass(frozen=True)
class StoredRecord:
    """Record as the log of its partition's leader holds it."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    producer_id: int = -1
    """-1: of a producer that is neither idempotent nor transactional."""
    producer_epoch: int = -1
    sequence: int = -1
    transaction: str | None = None
    """"open", "committed" or "aborted"; None for a record outside of a transaction."""
    marker: str | None = None
    """"COMMIT" or "ABORT", for the record that a coordinator writes at a transaction's end; consumers never see it."""
    replicated: bool = True
    """True below the high watermark: all in-sync replicas have it, and consumers may."""

    @property
    def is_tombstone(self) -> bool:
        """True for a record with a key and no value: compaction removes what was before."""
        return self.value is None and self.key is not None and self.marker is None

    def __str__(self) -> str:
        what = self.marker or ("tombstone" if self.is_tombstone else repr(self.value))
        marks = [one for one in (self.transaction, None if self.replicated else "not replicated") if one]
        return f"{self.topic}-{self.partition} {self.offset}: {self.key!r} {what}" + "".join(
            f" [{one}]" for one in marks
        )


@dataclass(frozen=True)
class SeenRequest:
    """A request of a client, as a broker has handled it."""

    at_ms: float
    """Since the cluster began."""
    broker: int
    client: str
    """client.id."""
    peer: str
    api: str
    version: int
    request_bytes: int
    response_bytes: int | None
    """None: not answered, or not yet."""
    took_ms: float | None

    def __str__(self) -> str:
        answer = "no answer" if self.took_ms is None else f"{self.response_bytes} bytes in {self.took_ms:.1f} ms"
        return f"{self.client} → broker {self.broker}: {self.api} v{self.version}, {self.request_bytes} bytes; {answer}"


@dataclass(frozen=True)
class Moment:
    """Something that happened."""

    at_ms: float
    """Since the cluster began."""
    who: str
    """"test", "zookeeper", "broker-N", or a client's id."""
    text: str

    def __str__(self) -> str:
        return f"{self.at_ms / 1000:9.3f} s  {self.who:<12} {self.text}"


@dataclass(frozen=True)
class Timeline:
    """Moments of a cluster, in order. As text by `str`, as a drawing by `svg`."""

    moments: tuple[Moment, ...]

    def __str__(self) -> str:
        """Return a line for each moment; of those that say the same one after the other, the first, and how many more.

        A program in a loop would otherwise fill the page with itself.
        """
        lines: list[str] = []
        for _, alike in groupby(self.moments, key=lambda moment: (moment.who, moment.text)):
            first, *more = alike
            lines.append(str(first))
            if more:
                lines.append(f"{more[-1].at_ms / 1000:9.3f} s  {'':12} … {len(more)} more")
        return "\n".join(lines)

    def svg(self) -> str:
        """Return a drawing with a lane for each who; a mark shows its text when it is pointed at."""
        from html import escape  # here: it is slow to import, and few draw

        lanes = sorted({moment.who for moment in self.moments}, key=lambda who: (who not in COLOURS, who))
        last_ms = max((moment.at_ms for moment in self.moments), default=0.0) or 1.0
        height = LANE_HEIGHT * (len(lanes) + 1)
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 40} {height}" '
            'font-family="sans-serif" font-size="11">'
        ]
        for number, who in enumerate(lanes):
            y = LANE_HEIGHT * number + LANE_HEIGHT // 2
            colour = COLOURS.get(who, OTHER_COLOUR)
            parts.append(f'<text x="4" y="{y + 4}" fill="{colour}">{escape(who)}</text>')
            parts.append(f'<line x1="{LEFT}" y1="{y}" x2="{LEFT + WIDTH}" y2="{y}" stroke="#d5d8dc"/>')
            for moment in self.moments:
                if moment.who == who:
                    x = LEFT + WIDTH * moment.at_ms / last_ms
                    parts.append(
                        f'<circle cx="{x:.1f}" cy="{y}" r="4" fill="{colour}" aria-label="{escape(moment.text)}">'
                        f"<title>{escape(str(moment))}</title></circle>"
                    )
        parts.append(f'<text x="{LEFT}" y="{height - 8}">0 s</text>')
        parts.append(f'<text x="{LEFT + WIDTH - 30}" y="{height - 8}">{last_ms / 1000:.2f} s</text></svg>')
        return "\n".join(parts)
