"""Who may do what, by the access lists alone: each rule of Kafka's AclAuthorizer, and a model of it."""

import itertools
import random

import pytest

from odradek.broker.security.acl_rules import AclRules
from odradek.broker.security.acls import (
    ANY,
    IMPLIED_BY,
    MATCH,
    OPERATIONS_ON,
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    bits,
)
from odradek.broker.security.principal import ANONYMOUS, KafkaPrincipal
from odradek.zk_schema.store import is_znode_name
from odradek.zk_schema.znodes.acls import PatternType, ResourcePattern, ResourceType

ALICE, BOB = KafkaPrincipal("User", "alice"), KafkaPrincipal("User", "bob")
HOST = "10.0.0.1"
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
READ, WRITE, DESCRIBE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.ALL
ALLOW, DENY = AclPermission.ALLOW, AclPermission.DENY


def literal(name: str, kind: ResourceType = TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name)


def prefixed(name: str, kind: ResourceType = TOPIC) -> ResourcePattern:
    return ResourcePattern(kind, name, PatternType.PREFIXED)


def rules(*lines: tuple[ResourcePattern, Acl], allow_everyone: bool = False) -> AclRules:
    made = AclRules([KafkaPrincipal("User", "root")], allow_everyone=allow_everyone)
    lists: dict[ResourcePattern, frozenset[Acl]] = {}
    for pattern, acl in lines:
        lists[pattern] = lists.get(pattern, frozenset()) | {acl}
        made.set_list(pattern, lists[pattern])
    return made


def line(
    operation: AclOperation, permission: AclPermission = ALLOW, principal: str = "User:alice", host: str = "*"
) -> Acl:
    return Acl(principal, host, operation, permission)


@pytest.mark.parametrize("allowed", AclOperation)
@pytest.mark.parametrize("asked", OPERATIONS_ON[TOPIC])
def test_an_operation_is_allowed_by_itself_by_all_and_by_what_implies_it(
    asked: AclOperation, allowed: AclOperation
) -> None:
    made = rules((literal("t"), line(allowed)))
    implied = allowed in (asked, ALL) or allowed in IMPLIED_BY.get(asked, ())
    assert made.authorize(ALICE, HOST, asked, TOPIC, "t") is implied
    assert not made.authorize(BOB, HOST, asked, TOPIC, "t")
    assert not made.authorize(ALICE, HOST, asked, TOPIC, "u")
    assert not made.authorize(ALICE, HOST, asked, GROUP, "t")


def test_describe_is_implied_by_exactly_these() -> None:
    names = {"DESCRIBE", "READ", "WRITE", "DELETE", "ALTER"}
    assert {one.name for one in IMPLIED_BY[DESCRIBE]} == names
    assert {one.name for one in IMPLIED_BY[AclOperation.DESCRIBE_CONFIGS]} == {"DESCRIBE_CONFIGS", "ALTER_CONFIGS"}
    assert len(IMPLIED_BY) == 2


def test_deny_comes_before_allow_and_implies_nothing() -> None:
    made = rules((literal("*"), line(ALL)), (literal("t"), line(READ, DENY)))
    assert not made.authorize(ALICE, HOST, READ, TOPIC, "t")
    assert made.authorize(ALICE, HOST, WRITE, TOPIC, "t")
    assert made.authorize(ALICE, HOST, DESCRIBE, TOPIC, "t")
    assert made.authorize(ALICE, HOST, READ, TOPIC, "u")
    made = rules((literal("t"), line(ALL)), (prefixed("t"), line(ALL, DENY)))
    assert not any(made.authorize(ALICE, HOST, one, TOPIC, "t") for one in OPERATIONS_ON[TOPIC])


def test_prefixes_and_the_wildcard() -> None:
    made = rules((prefixed("app."), line(READ)), (prefixed("a"), line(WRITE)), (literal("*"), line(DESCRIBE)))
    assert made.authorize(ALICE, HOST, READ, TOPIC, "app.x")
    assert made.authorize(ALICE, HOST, READ, TOPIC, "app.")
    assert not made.authorize(ALICE, HOST, READ, TOPIC, "app")
    assert made.authorize(ALICE, HOST, WRITE, TOPIC, "app")
    assert made.authorize(ALICE, HOST, DESCRIBE, TOPIC, "zzz")
    assert not made.authorize(ALICE, HOST, WRITE, TOPIC, "zzz")
    made.set_list(prefixed("a"), frozenset())
    assert not made.authorize(ALICE, HOST, WRITE, TOPIC, "app")
    # a prefix "*" is a prefix of names that begin with a star, which no topic has
    assert not rules((prefixed("*"), line(READ))).authorize(ALICE, HOST, READ, TOPIC, "t")


def test_hosts_and_everybody() -> None:
    made = rules((literal("t"), line(READ, host=HOST)), (literal("t"), line(WRITE, principal="User:*")))
    assert made.authorize(ALICE, HOST, READ, TOPIC, "t")
    assert not made.authorize(ALICE, "10.0.0.2", READ, TOPIC, "t")
    assert made.authorize(ANONYMOUS, "10.0.0.2", WRITE, TOPIC, "t")
    assert made.authorize(KafkaPrincipal("Group", "x"), HOST, WRITE, TOPIC, "t")


def test_super_users_may_do_everything() -> None:
    made = rules((literal("t"), line(ALL, DENY, "User:root")), (literal("t"), line(ALL, DENY, "User:*")))
    root = KafkaPrincipal("User", "root")
    assert made.authorize(root, HOST, READ, TOPIC, "t") and made.authorize_by_type(root, HOST, WRITE, TOPIC)
    assert not made.authorize(KafkaPrincipal("Group", "root"), HOST, READ, TOPIC, "t")


def test_everybody_may_use_what_has_no_list_if_that_is_said() -> None:
    made = rules((literal("t"), line(READ)), (prefixed("p"), line(READ)), allow_everyone=True)
    assert made.authorize(BOB, HOST, WRITE, TOPIC, "u")
    assert not made.authorize(BOB, HOST, READ, TOPIC, "t")
    assert not made.authorize(BOB, HOST, READ, TOPIC, "pq")
    assert made.authorize(BOB, HOST, READ, GROUP, "t")
    assert not rules().authorize(BOB, HOST, READ, TOPIC, "u")


@pytest.mark.parametrize(
    ("lines", "allowed"),
    [
        ([], False),
        ([(literal("t"), line(WRITE))], True),
        ([(literal("t"), line(ALL))], True),
        ([(literal("t"), line(READ))], False),
        ([(literal("t"), line(AclOperation.ALTER))], False),
        ([(literal("t"), line(WRITE)), (literal("t"), line(WRITE, DENY))], False),
        ([(literal("t"), line(WRITE)), (literal("u"), line(WRITE, DENY))], True),
        ([(literal("t"), line(WRITE)), (literal("*"), line(WRITE, DENY))], False),
        ([(literal("t"), line(WRITE)), (literal("*"), line(READ, DENY))], True),
        ([(literal("*"), line(WRITE)), (prefixed("t"), line(ALL, DENY))], True),
        ([(literal("*"), line(WRITE)), (prefixed("*"), line(ALL, DENY))], True),
        ([(literal("tx"), line(WRITE)), (prefixed("t"), line(ALL, DENY))], False),
        ([(prefixed("tx"), line(WRITE)), (prefixed("t"), line(WRITE, DENY))], False),
        ([(prefixed("t"), line(WRITE)), (prefixed("tx"), line(WRITE, DENY))], True),
        ([(prefixed("t"), line(WRITE)), (literal("t"), line(WRITE, DENY))], True),
        ([(literal("t"), line(WRITE, host="10.0.0.9"))], False),
        ([(literal("t"), line(WRITE, principal="User:*"))], True),
    ],
)
def test_may_they_write_any_topic_at_all(lines: list[tuple[ResourcePattern, Acl]], allowed: bool) -> None:
    assert rules(*lines).authorize_by_type(ALICE, HOST, WRITE, TOPIC) is allowed


def test_by_type_where_everybody_may_use_what_has_no_list() -> None:
    assert rules(allow_everyone=True).authorize_by_type(ALICE, HOST, WRITE, TOPIC)
    denied = rules((literal("*"), line(WRITE, DENY)), allow_everyone=True)
    assert not denied.authorize_by_type(ALICE, HOST, WRITE, TOPIC)


def test_a_random_cluster_is_judged_as_by_the_sentences() -> None:
    """The index by names and lengths against all lines in a row."""
    dice = random.Random(7)
    names = ["*", *map("".join, itertools.product("ab", repeat=3)), "a", "ab", "b"]
    for _ in range(60):
        lines = [
            (
                ResourcePattern(TOPIC, dice.choice(names), dice.choice([*PatternType])),
                Acl(
                    dice.choice(["User:alice", "User:*", "User:bob"]),
                    dice.choice(["*", HOST, "10.0.0.2"]),
                    dice.choice([READ, WRITE, DESCRIBE, ALL]),
                    dice.choice([ALLOW, ALLOW, ALLOW, DENY]),
                ),
            )
            for _ in range(dice.randrange(8))
        ]
        made = rules(*lines)
        for name, operation in itertools.product(names[1:], (READ, WRITE, DESCRIBE)):
            mine = [
                acl
                for pattern, acl in lines
                if (name.startswith(pattern.name) if pattern.pattern_type is PatternType.PREFIXED
                    else pattern.name in ("*", name))
                and acl.principal in ("User:alice", "User:*") and acl.host in ("*", HOST)
            ]  # fmt: skip
            denied = any(acl.permission is DENY and acl.operation in (operation, ALL) for acl in mine)
            enough = {ALL, *IMPLIED_BY.get(operation, (operation,))}
            allowed = any(acl.permission is ALLOW and acl.operation in enough for acl in mine)
            assert made.authorize(ALICE, HOST, operation, TOPIC, name) is (allowed and not denied), (name, lines)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), {"a", "ab", "*", "a*"}),
        (AclFilter(resource_type=2), {"a", "ab", "*", "a*"}),
        (AclFilter(resource_type=3), set()),
        (AclFilter(name="a", pattern_type=3), {"a"}),
        (AclFilter(name="a", pattern_type=4), {"a*"}),
        (AclFilter(name="a", pattern_type=ANY), {"a", "a*"}),
        (AclFilter(name="ab", pattern_type=MATCH), {"ab", "*", "a*"}),
        (AclFilter(pattern_type=4), {"a*"}),
        (AclFilter(operation=READ), {"a", "ab", "*", "a*"}),
        (AclFilter(operation=WRITE), set()),
        (AclFilter(permission=DENY), set()),
        (AclFilter(principal="User:alice", host="*"), {"a", "ab", "*", "a*"}),
        (AclFilter(host=HOST), set()),
    ],
)
def test_filters(wanted: AclFilter, found: set[str]) -> None:
    patterns = {"a": literal("a"), "ab": literal("ab"), "*": literal("*"), "a*": prefixed("a")}
    made = rules(*((pattern, line(READ)) for pattern in patterns.values()))
    assert {pattern for pattern, _ in made.bindings(wanted)} == {patterns[one] for one in found}


def test_names_that_would_not_be_one_part_of_a_path() -> None:
    assert all(map(is_znode_name, ["t", "*", "User:a", "a b", "ä", "..."]))
    assert not any(map(is_znode_name, ["", ".", "..", "a/b", "a\nb", "a\0", "\x7f", "\ufffe"]))


def test_sets_of_operations_are_kafkas_bits() -> None:
    assert bits(OPERATIONS_ON[TOPIC]) == 3576 and bits(OPERATIONS_ON[GROUP]) == 328
    assert bits(OPERATIONS_ON[ResourceType.CLUSTER]) == 8096
