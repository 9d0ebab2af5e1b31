"""Cuts between hosts of a network for tests, which hold back what comes from one to another until they heal."""

import asyncio


class Cuts:
    """Ways between hosts that are cut. A network is one, and says in `_arrange` what becomes of its connections."""

    def __init__(self) -> None:
        self._cuts: set[tuple[str, str]] = set()
        self._healed = asyncio.Event()
        """Set, and made anew, whenever a cut has healed."""

    def cut(self, source: str, target: str, *, one_way: bool = False) -> None:
        """Let nothing arrive from `source` at `target` from now on, nor back unless `one_way`."""
        self._cuts.add((source, target))
        if not one_way:
            self._cuts.add((target, source))

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Undo one cut, both ways, or all of them; what was held back arrives."""
        pair = {(source, target), (target, source)}
        self._mend({way for way in self._cuts if source is None or way in pair})

    def heal_way(self, source: str, target: str) -> None:
        """Undo the cut in one direction."""
        self._mend({(source, target)})

    def _mend(self, ways: set[tuple[str, str]]) -> None:
        self._cuts -= ways
        self._arrange()
        self._healed.set()
        self._healed = asyncio.Event()

    def is_cut(self, source: str, target: str) -> bool:
        """Tell whether nothing arrives from `source` at `target`."""
        return (source, target) in self._cuts

    def _arrange(self) -> None:
        """Let through what is not held back any more."""
        raise NotImplementedError
