"""Settings of security: who may do what, TLS, SASL, tokens and secrets."""

from dataclasses import dataclass
from typing import Final

from odradek.broker.settings.definition import read_table, setting


@dataclass(frozen=True, kw_only=True)
class AuthorizerSettings:
    """The authorizer, and who needs none."""

    authorizer_class_name: str = setting(
        "string '' {,kafka.security.authorizer.AclAuthorizer} low read-only",
        "Class that decides who may do what: kafka.security.authorizer.AclAuthorizer; empty: everybody may do "
        "everything.",
    )
    super_users: str = setting(
        "string '' any medium read-only internal",
        "Principals that may do everything: User:name, separated by semicolons.",
    )
    allow_everyone_if_no_acl_found: bool = setting(
        "boolean false any medium read-only internal",
        "Whether everybody may use a resource that has no access list.",
    )


OTHER_AUTHORIZER_SETTINGS: Final = read_table("""
authorizer.zookeeper.url string - any low read-only refused
    ZooKeeper of the access lists. | access lists are kept in the cluster's own ZooKeeper
""")


SECURITY_SETTINGS: Final = read_table("""
connections.max.reauth.ms long 0 any medium read-only works
    How long a SASL session lasts before the client must authenticate again; 0: for ever.
sasl.server.max.receive.size int 524288 any medium read-only works
    Maximum size of a packet of an authentication.
security.providers string - any low read-only none
    Java classes of security providers.
principal.builder.class class \
    org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder \
    any medium per-broker refused
    Class that derives the principal of a connection. | Java classes cannot be loaded
ssl.client.auth string none {required,requested,none} medium per-broker works=tls
    Whether clients must show a certificate.
ssl.principal.mapping.rules string DEFAULT any low read-only works
    How a certificate's name becomes a user's.
ssl.allow.dn.changes boolean false any low read-only works
    Whether a renewed certificate may have another distinguished name.
ssl.allow.san.changes boolean false any low read-only works
    Whether a renewed certificate may lack alternative names of the old.
ssl.protocol string TLSv1.3 any medium per-broker none
    Newest TLS version that is offered.
ssl.provider string - any medium per-broker none
    Java's provider of TLS.
ssl.enabled.protocols list TLSv1.2,TLSv1.3 any medium per-broker works=tls
    TLS versions allowed.
ssl.keystore.type string JKS any medium per-broker works=tls
    Type of the key store.
ssl.keystore.location string - any medium per-broker works=tls
    File of the key store.
ssl.keystore.password password - any medium per-broker works=tls
    Password of the key store.
ssl.key.password password - any medium per-broker works=tls
    Password of the private key.
ssl.keystore.key password - any medium per-broker works=tls
    Private key as PEM text.
ssl.keystore.certificate.chain password - any medium per-broker works=tls
    Certificates as PEM text.
ssl.truststore.type string JKS any medium per-broker works=tls
    Type of the trust store.
ssl.truststore.location string - any medium per-broker works=tls
    File of the trust store.
ssl.truststore.password password - any medium per-broker works=tls
    Password of the trust store.
ssl.truststore.certificates password - any medium per-broker works=tls
    Trusted certificates as PEM text.
ssl.keymanager.algorithm string SunX509 any medium per-broker none
    Java's algorithm for keys.
ssl.trustmanager.algorithm string PKIX any medium per-broker none
    Java's algorithm for trust.
ssl.endpoint.identification.algorithm string https any low per-broker works=tls
    How a server's name is checked against its certificate.
ssl.secure.random.implementation string - any low per-broker none
    Java's random numbers for TLS.
ssl.cipher.suites list '' any medium per-broker works=tls
    Cipher suites allowed.
ssl.engine.factory.class class - any low per-broker refused
    Class that makes TLS engines. | Java classes cannot be loaded
sasl.mechanism.inter.broker.protocol string GSSAPI any medium per-broker works=tls
    Mechanism between brokers.
sasl.enabled.mechanisms list GSSAPI any medium per-broker works=tls
    Mechanisms that clients may use.
sasl.server.callback.handler.class class - any medium read-only works
    Java class that checks a mechanism's clients: Kafka's own, two for OAUTHBEARER; others are refused.
sasl.kerberos.principal.to.local.rules list DEFAULT any medium per-broker works=tls
    How a Kerberos name becomes a user's.
sasl.jaas.config password - any medium per-broker works=tls
    Login of the broker in JAAS form.
sasl.client.callback.handler.class class - any medium read-only none
    Class that answers a mechanism's questions on the client.
sasl.login.class class - any medium read-only none
    Class that logs in.
sasl.login.callback.handler.class class - any medium read-only none
    Class that answers the login's questions.
sasl.kerberos.service.name string - any medium per-broker works=tls
    Kerberos name that brokers run as.
sasl.kerberos.kinit.cmd string /usr/bin/kinit any medium per-broker none
    Path of kinit.
sasl.kerberos.ticket.renew.window.factor double 0.8 any medium per-broker none
    Share of a ticket's lifetime after which it is renewed.
sasl.kerberos.ticket.renew.jitter double 0.05 any medium per-broker none
    Random share of the lifetime, added to sasl.kerberos.ticket.renew.window.factor.
sasl.kerberos.min.time.before.relogin long 60000 any medium per-broker none
    Minimum time between two renewals of a Kerberos ticket.
sasl.login.refresh.window.factor double 0.8 any medium per-broker none
    Share of a token's lifetime after which it is renewed.
sasl.login.refresh.window.jitter double 0.05 any medium per-broker none
    Random share of the lifetime, added to sasl.login.refresh.window.factor.
sasl.login.refresh.min.period.seconds short 60 any medium per-broker none
    Minimum time between two renewals of a token.
sasl.login.refresh.buffer.seconds short 300 any medium per-broker none
    How long before its expiry a token is renewed at the latest.
sasl.login.connect.timeout.ms int - any low read-only none
    How long a connection to the token's issuer may take.
sasl.login.read.timeout.ms int - any low read-only works
    How long an answer of the token's issuer may take.
sasl.login.retry.backoff.max.ms long 10000 any low read-only none
    Longest pause between two attempts to log in.
sasl.login.retry.backoff.ms long 100 any low read-only none
    First pause between two attempts to log in.
sasl.oauthbearer.scope.claim.name string scope any low read-only none
    Claim that holds a token's scope.
sasl.oauthbearer.sub.claim.name string sub any low read-only works
    Claim that holds a token's subject.
sasl.oauthbearer.token.endpoint.url string - any medium read-only works
    Address of the token's issuer.
sasl.oauthbearer.jwks.endpoint.url string - any medium read-only works
    Address of the issuer's keys.
sasl.oauthbearer.jwks.endpoint.refresh.ms long 3600000 any low read-only works
    How often the issuer's keys are fetched.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms long 100 any low read-only none
    First pause when fetching the issuer's keys fails.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms long 10000 any low read-only none
    Longest pause when fetching the issuer's keys fails.
sasl.oauthbearer.clock.skew.seconds int 30 any low read-only works
    How far the clocks of the token's issuer and the broker may differ.
sasl.oauthbearer.expected.audience list - any low read-only works
    Audience that a token must name.
sasl.oauthbearer.expected.issuer string - any low read-only works
    Issuer that a token must name.
delegation.token.secret.key password - any medium read-only works
    Key that delegation tokens are signed with; the same on every broker.
delegation.token.master.key password - any medium read-only works
    Old name of delegation.token.secret.key.
delegation.token.max.lifetime.ms long 604800000 >=1 medium read-only works
    Maximum lifetime of a delegation token.
delegation.token.expiry.time.ms long 86400000 >=1 medium read-only works
    Lifetime of a delegation token that is not renewed.
delegation.token.expiry.check.interval.ms long 3600000 >=1 low read-only works
    How often expired delegation tokens are looked for.
password.encoder.secret password - any medium read-only works
    Secret that passwords in ZooKeeper are encrypted with.
password.encoder.old.secret password - any medium read-only works
    Previous value of password.encoder.secret, while it is being changed.
password.encoder.keyfactory.algorithm string - any low read-only works
    Algorithm that derives the encryption key.
password.encoder.cipher.algorithm string AES/CBC/PKCS5Padding any low read-only refused
    Cipher that passwords in ZooKeeper are encrypted with. | only AES/CBC/PKCS5Padding is implemented
password.encoder.key.length int 128 >=8 low read-only works
    Length of the encryption key in bits.
password.encoder.iterations int 4096 >=1024 low read-only works
    Iterations that derive the encryption key.
""")
