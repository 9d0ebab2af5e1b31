"""The clients, on asyncio: `odradek.aio` is their public name. The blocking ones are bridges to these.

producer            Producer
consumer            Consumer, upon consumer_base
admin               Admin, upon admin_groups
opening             how all of them open and close
world               the network, clock and randomness that they use
"""
