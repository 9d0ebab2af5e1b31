"""Authorization of requests: what each API asks of the authorizer, and what it answers when that is denied.

Without an authorizer nothing of this package runs.

table               the whole list: an API, its rule
rules               the kinds of rules; those that are like no other are in topics, groups, configs and tokens
refusals            answers to what is refused as a whole; item_refusals: to a resource among others
"""
