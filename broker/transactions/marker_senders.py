"""Senders of markers, by the connections on which they have sent some: what comes by an earlier one may be late.

A coordinator that waits in vain for an answer gives its connection up and sends the marker again. What the network
still held of the first comes when the transaction has ended, and the producer is in the next one: before KIP-890 a
marker names no transaction, and would end it in the midst, so that half of what is committed is lost. Kafka 3.9 takes
it so.
"""

from collections import OrderedDict

SENDERS_MAX = 1_000
EARLIER_CONNECTIONS_MAX = 100
"""Of each sender so many are told apart; what comes by further ones is taken, as by Kafka."""


class MarkerSenders:
    """The latest connection of each sender, and the earlier ones by which it has sent something since."""

    def __init__(self) -> None:
        self._senders: OrderedDict[str, tuple[int, set[int]]] = OrderedDict()

    def is_late(self, sender: str, connection: int) -> bool:
        """Tell whether what comes may have been given up: once for each connection that is earlier than the latest.

        A sender may use several, or several senders one name: who is still there sends again, and is heard.
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
