"""The administrative client.

client              KafkaAdminClient, the blocking form; the one on asyncio is client/aio/admin.py
values              what both take and give; access_values: of ACLs, credentials, tokens and quotas
by subject          topics, configs, groups, leaders, access, brokers, quotas, tokens, transactions,
                    hanging_transactions: coroutines for the client's loop
"""
