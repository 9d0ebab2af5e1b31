"""Cases: one partition, broker, group or the whole cluster, with what the rows of the table need of it."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from odradek.client.records import TopicPartition
from odradek.diagnosis.facts import BrokerFacts, Facts, GroupFacts, PartitionFacts, TopicFacts
from odradek.diagnosis.history import History, Noted, clock, end_of
from odradek.diagnosis.situation import Table, WayOut
from odradek.zk_schema.znodes.topics import NO_LEADER


@dataclass(frozen=True)
class Case:
    """Base of the cases: the facts and the history of the cluster."""

    facts: Facts
    history: History

    def time(self, moment_ms: int) -> str:
        """Return a time (ms since 1970) as local time for people."""
        return clock(moment_ms, self.facts.now_ms)

    def way(self, words: str, command: str = "") -> WayOut:
        """Return a way out; `command`: the words after `odradek`."""
        return WayOut(words, self.facts.command(command) if command else "")

    def start(self, broker: int) -> WayOut:
        """Return the way out of starting a broker again, with its file if `odradek up` has written one here."""
        file = self.facts.broker_files.get(broker)
        return WayOut(f"start broker {broker} again", f"odradek broker {shlex.quote(file)}" if file else "")

    def gone(self, brokers: list[int]) -> str:
        """Return clauses that tell how brokers that are not registered ended."""
        return "; ".join(end_of(self.history, broker).told(self.facts.now_ms) for broker in brokers)

    def unknown_before(self, moment_ms: int | None) -> str:
        """Return a clause that says why the cause of a change at this time cannot be known; empty if it can be."""
        if not self.facts.journals:
            return "its cause is not known: no broker has a journal that could be read"
        if moment_ms is not None and not self.history.reaches(moment_ms):
            begin = "later" if self.history.since_ms is None else f"only at {self.time(self.history.since_ms)}"
            return f"its cause is not known: the journals begin {begin}"
        return ""


@dataclass(frozen=True)
class PartitionCase(Case):
    """A partition, with its topic."""

    topic: TopicFacts
    partition: PartitionFacts

    @property
    def name(self) -> str:
        return self.partition.name

    @property
    def at(self) -> TopicPartition:
        return TopicPartition(self.partition.topic, self.partition.partition)

    @cached_property
    def dead(self) -> list[int]:
        """Replicas whose broker is not registered."""
        return [one for one in self.partition.replicas if not self.facts.is_registered(one)]

    @cached_property
    def away_from_topic(self) -> list[int]:
        """Brokers that have a replica of any partition of the topic, and are not registered."""
        return [one for one in self.topic.holders if not self.facts.is_registered(one)]

    @cached_property
    def diskless(self) -> list[int]:
        """Replicas whose broker is registered, but whose log directory is offline."""
        return [one for one in self.partition.offline if self.facts.is_registered(one)]

    @cached_property
    def standing(self) -> list[int]:
        """Replicas without those that a reassignment is adding, on which nobody counts yet."""
        return [one for one in self.partition.replicas if one not in self.partition.adding]

    @cached_property
    def outside(self) -> list[int]:
        """Replicas that are not in sync."""
        return [one for one in self.partition.replicas if one not in self.partition.isr]

    @cached_property
    def outside_alive(self) -> list[int]:
        """Standing replicas that are not in sync although their broker and log directory are online."""
        away = {*self.dead, *self.diskless}
        return [one for one in self.standing if one in self.outside and one not in away]

    def full_disk(self, broker: int) -> str:
        """Return a clause about the free space for a replica if its volume cannot take one more batch of
        max.message.bytes, or of 1 MB if that is less; else an empty text."""
        path, holder = self.partition.directories.get(broker), self.facts.brokers.get(broker)
        batch_bytes = min(int(self.topic.settings.get("max.message.bytes", BATCH_BYTES_MAX)), BATCH_BYTES_MAX)
        for one in () if holder is None else holder.directories:
            if one.path == path and one.online and one.total_bytes > 0 and one.usable_bytes < batch_bytes:
                return f"{path} of broker {broker} has {size(one.usable_bytes)} of {size(one.total_bytes)} free"
        return ""

    @cached_property
    def outside_full(self) -> dict[int, str]:
        """Replicas that are not in sync and whose volume is full, each with a clause about its free space."""
        return {one: full for one in self.outside_alive if (full := self.full_disk(one))}

    @property
    def is_led(self) -> bool:
        return self.partition.leader != NO_LEADER and self.facts.is_registered(self.partition.leader)

    @cached_property
    def min_isr(self) -> int:
        """Number of in-sync replicas that acks=all requires: at most that of all replicas (Kafka: effectiveMinIsr)."""
        return min(int(self.topic.settings.get("min.insync.replicas", "1")), max(len(self.partition.replicas), 1))

    @property
    def unclean_allowed(self) -> bool | None:
        """Value of unclean.leader.election.enable; None when the settings are not known."""
        setting = self.topic.settings.get("unclean.leader.election.enable")
        return None if setting is None else setting == "true"

    @cached_property
    def changes(self) -> Sequence[Noted]:
        """Entries of the journals about its leaders and ISRs, oldest first."""
        return self.history.about("partition", self.name)

    @cached_property
    def since_ms(self) -> int | None:
        """Time since which the partition is as it is (ms since 1970); None when that is not known."""
        if self.partition.changed_ms is not None:
            return self.partition.changed_ms
        return self.changes[-1].at_ms if self.changes else None

    def has(self, what: str) -> str:
        """Return a clause: the partition has `what`, such as "no leader", and since when, if that is known."""
        return f"has {what}" if self.since_ms is None else f"has had {what} since {self.time(self.since_ms)}"

    def left_isr(self, broker: int) -> Noted | None:
        """Return the last change that took this broker's replica out of the ISR."""
        found = (one for one in reversed(self.changes) if broker in one.isr_before and broker not in one.isr_after)
        return next(found, None)

    def share_held(self, broker: int) -> str:
        """Return a clause that compares the size of a replica with the leader's; empty when one is not known."""
        own, leaders = self.partition.sizes.get(broker), self.partition.sizes.get(self.partition.leader)
        return "" if own is None or not leaders else f"it has {size(own)} of the leader's {size(leaders)}"

    def throttle(self, broker: int) -> str:
        """Return the setting that throttles this follower, as `NAME=VALUE of broker N`; empty if none does."""
        leader = self.partition.leader
        for side, of in (("leader", leader), ("follower", broker)):
            named = self.topic.settings.get(f"{side}.replication.throttled.replicas", "")
            holder = self.facts.brokers.get(of)
            rate = "" if holder is None else holder.settings.get(f"{side}.replication.throttled.rate", "")
            if rate.isdecimal() and int(rate) < UNLIMITED and names_replica(named, self.partition.partition, of):
                return f"{side}.replication.throttled.rate={rate} of broker {of}"
        return ""


UNLIMITED = (1 << 63) - 1
BATCH_BYTES_MAX = 1_048_588
"""Kafka's default of max.message.bytes."""


def names_replica(setting: str, partition: int, broker: int) -> bool:
    """Tell whether `leader.replication.throttled.replicas` or its twin names a replica: `*`, or `0:1,0:2`."""
    return setting == "*" or f"{partition}:{broker}" in {one.strip() for one in setting.split(",")}


def keep_less(case: PartitionCase) -> str:
    """Return the words of a command that has a topic's old segments deleted."""
    return f"configs alter --topic {case.partition.topic} --set retention.ms=…"


def size(count: int) -> str:
    """Format a number of bytes for people."""
    number, units = float(count), ("bytes", "KB", "MB", "GB", "TB")
    for unit in units:
        if number < 1000 or unit == units[-1]:
            return f"{number:.0f} {unit}" if unit == "bytes" else f"{number:.1f} {unit}"
        number /= 1000
    raise AssertionError(count)


def duration(milliseconds: float) -> str:
    """Format a duration for people."""
    seconds = milliseconds / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def typed(name: str) -> str:
    """Quote a name, which may have any characters, for a shell, so that a terminal shows it as it is typed."""
    if name.isprintable():
        return shlex.quote(name)
    return "$'" + "".join(map(_in_ansi_quotes, name)) + "'"


def _in_ansi_quotes(one: str) -> str:
    if one in "\\'":
        return "\\" + one
    return one if one.isprintable() else f"\\U{ord(one):08x}"


@dataclass(frozen=True)
class BrokerCase(Case):
    """A broker."""

    broker: BrokerFacts

    @property
    def number(self) -> int:
        return self.broker.broker_id

    @cached_property
    def led(self) -> list[PartitionFacts]:
        """Partitions that it leads."""
        topics = self.facts.topics.values()
        return [one for topic in topics for one in topic.partitions.values() if one.leader == self.number]

    @cached_property
    def only_in_sync(self) -> list[PartitionFacts]:
        """Partitions without a leader that have the broker in their ISR."""
        topics = self.facts.topics.values()
        partitions = [one for topic in topics for one in topic.partitions.values()]
        return [one for one in partitions if one.leader == NO_LEADER and self.number in one.isr]

    @cached_property
    def replicas(self) -> int:
        """Number of replicas that the broker has."""
        topics = self.facts.topics.values()
        return sum(self.number in one.replicas for topic in topics for one in topic.partitions.values())


@dataclass(frozen=True)
class GroupCase(Case):
    """A group."""

    group: GroupFacts

    @property
    def typed(self) -> str:
        """The group's name, quoted for a shell."""
        return typed(self.group.group_id)

    @cached_property
    def assigned(self) -> dict[TopicPartition, str]:
        """Partitions that members own, each with its member's group.instance.id, or else its client.id."""
        return {at: one.group_instance_id or one.client_id for one in self.group.members for at in one.partitions}

    @cached_property
    def behind(self) -> dict[TopicPartition, int]:
        """Number of records by which the group is behind, of each partition in which it is."""
        found = {}
        for at, offset in self.group.committed.items():
            partition = self.facts.partition(at)
            if partition is not None and partition.high_watermark is not None and partition.high_watermark > offset:
                found[at] = partition.high_watermark - offset
        return found

    @cached_property
    def unowned(self) -> dict[TopicPartition, int]:
        """Number of unread records in partitions that no member owns: those in which the group has an offset, and those
        of topics that members read."""
        found = {at: lag for at, lag in self.behind.items() if at not in self.assigned}
        known = self.assigned.keys() | self.group.committed.keys()
        for topic in {at.topic for at in self.assigned} & self.facts.topics.keys():
            for number, one in self.facts.topics[topic].partitions.items():
                at = TopicPartition(topic, number)
                if at in known or one.start_offset is None or one.high_watermark is None:
                    continue
                if one.high_watermark > one.start_offset:
                    found[at] = one.high_watermark - one.start_offset
        return found

    @cached_property
    def events(self) -> Sequence[Noted]:
        """Entries about the group in the journals of coordinators, oldest first."""
        return self.history.about("group", self.group.group_id)


@dataclass(frozen=True)
class ClusterCase(Case):
    """The cluster as a whole."""


CLUSTER: Table[ClusterCase] = Table("cluster")
BROKER: Table[BrokerCase] = Table("broker")
PARTITION: Table[PartitionCase] = Table("partition")
GROUP: Table[GroupCase] = Table("group")
