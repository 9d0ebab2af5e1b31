"""The administrative client.

client              KafkaAdminClient, the blocking form; the one on asyncio is client/aio/admin.py
values              what both take and return; access_values: the same for ACLs, credentials, tokens and quotas
the requests        by subject, as coroutines for the client's loop: topics, configs, groups, leaders, access, brokers,
                    quotas, tokens, transactions, hanging_transactions
"""
