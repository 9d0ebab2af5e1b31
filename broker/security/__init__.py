"""Security of a broker: TLS and SASL at its listeners, principals, and access lists.

Whom a connection speaks for:

listener_security       TLS and SASL of the listeners; sasl_listener: the mechanisms of one
sasl_mechanisms         the server's side of each; bearer_tokens, kerberos_server: what two of them need
scram_credentials       what SCRAM checks users against; delegation_tokens: tokens that stand for a user
principal               what all of that ends in; principal_mapping: by which rules for certificates

What they may do:

authorizer              answers what a request asks, and writes the audit log; acl_store: the access lists in ZooKeeper
acl_rules, acls         the rules, and access lists as values

password_encoder        secrets in ZooKeeper; link_file: the link to ZooKeeper for commands
"""
