"""The clients, on asyncio: `odradek.aio` is their public name. The blocking ones are bridges to these."""
