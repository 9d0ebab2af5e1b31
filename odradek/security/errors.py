"""Errors of encryption, authentication and their settings."""


class AuthenticationFailed(OSError):  # noqa: N818 - named after what has happened
    """A side has not proved who it is, so the connection must not be used. Trying again will not help by itself."""


class LoginRefused(AuthenticationFailed):
    """The broker has answered that it does not accept this login."""


class BadSecuritySetting(ValueError):  # noqa: N818 - it names what was given
    """A setting of TLS or SASL cannot be obeyed. `setting` is Kafka's name; the reason never holds a secret."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting = setting
        self.reason = reason


class InvalidCredentials(Exception):  # noqa: N818 - named after what has happened
    """A login failed: the peer has not proved who it is. The reason is for the server's log; the peer is told no
    more."""


class NotNow(Exception):  # noqa: N818 - named after what has happened
    """A login cannot be decided at the moment; the peer is told nothing, and may try again."""
