"""Requests that come late, by a connection that their sender has given up.

A sender that waits in vain for an answer gives its connection up and asks again by another. The network may deliver
what it still holds of the first much later, when the sender has gone on to something else. Nothing in the requests that
begin and end transactions says which transaction they are for (before KIP-890); the order of the connections does.
"""

from collections import OrderedDict

SENDERS_MAX = 10_000
EARLIER_CONNECTIONS_MAX = 100
"""Number of earlier connections of a sender that are told apart; what comes on further ones is taken, as by Kafka."""


class SenderConnections:
    """The latest connection of each sender, and the earlier ones on which it has sent some since; of the senders that
    were heard of last."""

    def __init__(self) -> None:
        self._senders: OrderedDict[str, tuple[int, set[int]]] = OrderedDict()

    def is_late(self, sender: str, connection: int) -> bool:
        """Tell whether a request may have been given up: once for each connection that is earlier than the latest.

        A sender may use several connections, or several senders one name: one that is still there sends again, and is
        heard.
        """
        latest, told = self._senders.pop(sender, (connection, set()))
        if connection > latest:
            latest, told = connection, set()
        late = connection < latest and connection not in told and len(told) < EARLIER_CONNECTIONS_MAX
        if late:
            told.add(connection)
        self._senders[sender] = latest, told
        if len(self._senders) > SENDERS_MAX:
            self._senders.popitem(last=False)
        return late
