"""A key distribution center of the tests' own: MIT's krb5kdc in a folder, on a free port, for whoever runs them.

Libraries of Kerberos in this process and in those that it starts find it by the environment (KRB5_CONFIG).
"""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Final

from odradek.local.ports import free_ports
from odradek.testing.patience import PATIENCE_SECONDS

REALM: Final = "ODRADEK.TEST"
SERVICE: Final = "kafka"
SYSTEM_PYTHON: Final = Path("/usr/lib/python3/dist-packages")
SYSTEM_PROGRAMS: Final = "/usr/sbin:/sbin"
"""Directories in which Debian has the administrator's programs."""
MODULES: Final = ("gssapi", "decorator.py")
BINARY: Final = f"gssapi/raw/misc.cpython-{sys.version_info.major}{sys.version_info.minor}-*.so"
PROGRAMS: Final = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")

# Without kdc_timesync a slow answer of the center does not count as a clock that goes wrong.
KRB5_CONF = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
kdc_timesync = 0
rdns = false
udp_preference_limit = 1
{more}
[realms]
{realm} = {{
kdc = 127.0.0.1:{port}
}}
"""
KDC_CONF = """\
[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[logging]
kdc = FILE:{folder}/log
[realms]
{realm} = {{
database_name = {folder}/principals
key_stash_file = {folder}/stash
acl_file = {folder}/acl
max_life = 1h
supported_enctypes = aes128-cts-hmac-sha1-96:normal
}}
"""


def program(name: str) -> str | None:
    """Return the path of a program of Kerberos."""
    return shutil.which(name) or shutil.which(name, path=SYSTEM_PROGRAMS)


def system_gssapi() -> bool:
    """Tell whether the machine's own Python, of the same version as this one, has the package gssapi."""
    return (SYSTEM_PYTHON / "decorator.py").exists() and any(SYSTEM_PYTHON.glob(BINARY))


def is_here() -> bool:
    """Tell whether tests of Kerberos can run."""
    return all(map(program, PROGRAMS)) and (PathFinder.find_spec("gssapi") is not None or system_gssapi())


def is_in_sasl() -> bool:
    """Tell whether the machine's SASL library, by which kcat logs in, knows GSSAPI."""
    return any(Path("/usr/lib").glob("*/sasl2/libgssapiv2.so"))


def gssapi_path(folder: Path) -> Path | None:
    """Return a folder with the machine's package gssapi and what that needs, nothing else; None: it is not needed.

    Nobody publishes the package compiled; Debian does (python3-gssapi). Its whole folder in the path would put other
    versions of everything before those that are pinned.
    """
    if PathFinder.find_spec("gssapi") is not None:
        return None
    folder.mkdir()
    for name in MODULES:
        (folder / name).symlink_to(SYSTEM_PYTHON / name)
    return folder


class Kdc:
    """A realm, its principals and key tables."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._port = free_ports(1)[0]
        self._database = folder / "database"
        self._database.mkdir(parents=True)
        self._process: subprocess.Popen[bytes] | None = None
        self.config = self.write_config("krb5.conf")
        conf = KDC_CONF.format(port=self._port, realm=REALM, folder=self._database)
        (folder / "kdc.conf").write_text(conf)

    def write_config(self, name: str, more: str = "") -> Path:
        """Write a krb5.conf, with more settings of `libdefaults` if given."""
        path = self.folder / name
        path.write_text(KRB5_CONF.format(realm=REALM, port=self._port, more=more))
        return path

    def environment(self, config: Path | None = None) -> dict[str, str]:
        """Return what programs find the realm by."""
        return {
            "KRB5_CONFIG": str(config or self.config),
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "KRB5CCNAME": f"FILE:{self.folder / 'tickets'}",
            "KRB5RCACHEDIR": str(self.folder),
            "JDK_JAVA_OPTIONS": f"-Djava.security.krb5.conf={config or self.config}",
        }

    def run(self, name: str, *arguments: str, said: str = "", environment: Mapping[str, str] | None = None) -> None:
        """Run one of Kerberos' programs. Raises AssertionError when it fails."""
        found = program(name)
        assert found is not None, name
        environ = {**os.environ, **self.environment(), **(environment or {})}
        done = subprocess.run(
            [found, *arguments],
            input=said,
            capture_output=True,
            text=True,
            env=environ,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def keytab(self, name: str, *principals: str) -> Path:
        """Make principals with random keys; return the file of these."""
        path = self.folder / f"{name}.keytab"
        commands = "".join(f"addprinc -randkey {one}\nktadd -k {path} {one}\n" for one in principals)
        self.run("kadmin.local", "-r", REALM, said=commands)
        assert path.exists(), commands
        return path

    def service_keytab(self) -> Path:
        """Make keys of brokers on this machine, by whatever name of it clients look for them."""
        hosts = dict.fromkeys(("localhost", "127.0.0.1", socket.getfqdn("127.0.0.1")))
        return self.keytab(SERVICE, *(f"{SERVICE}/{host}" for host in hosts))

    def start(self) -> None:
        """Make the realm, and serve it."""
        if not (self._database / "stash").exists():
            self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")
        found = program("krb5kdc")
        assert found is not None
        environ = {**os.environ, **self.environment()}
        self._process = subprocess.Popen([found, "-n", "-r", REALM], env=environ, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()  # once it listens
        assert b"starting" in said, said

    def stop(self) -> None:
        """Stop serving; tickets that are out stay valid."""
        if self._process is not None:
            self._process.terminate()
            self._process.communicate(timeout=PATIENCE_SECONDS)
            self._process = None


@contextmanager
def kerberos(folder: Path) -> Iterator[Kdc]:
    """Run a realm that this process, and those it starts, find; with the package gssapi in their path."""
    kdc = Kdc(folder / "kdc")
    found = gssapi_path(folder / "gssapi")
    kept = dict(os.environ)
    os.environ.update(kdc.environment())
    if found is not None:
        sys.path.append(str(found))
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (kept.get("PYTHONPATH"), str(found))))
    try:
        kdc.start()
        yield kdc
    finally:
        kdc.stop()
        if found is not None:
            sys.path.remove(str(found))
        os.environ.clear()
        os.environ.update(kept)
