"""The link to ZooKeeper out of a properties file, for commands that reach ZooKeeper themselves."""

from pathlib import Path
from typing import Any

from odradek.broker.settings.cluster_settings import OTHER_CLUSTER_SETTINGS
from odradek.broker.settings.properties import parse_properties
from odradek.security.zookeeper_link import read_link
from odradek.zk_schema.link import Link


def link_of_file(path: str) -> Link:
    """Read a properties file with settings of ZooKeeper, as Kafka's tools take one (--zk-tls-config-file).

    Raises OSError, BadProperties, BadValue and BadSecuritySetting.
    """
    given = {one.key: one.value for one in parse_properties(Path(path).read_text(errors="replace"))}
    settings = {one.name: one for one in OTHER_CLUSTER_SETTINGS}

    def look(name: str) -> Any:
        return settings[name].read(given.get(name, settings[name].default))

    return read_link(look)
