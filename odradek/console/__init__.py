"""Console: one web page about a cluster, live by server-sent events.

snapshot, happenings, *_view            values in, values out: what the page gets, testable without a browser
observer, journals, reading, views      requests to the cluster, as any client makes them
guard, stream, server                   HTTP, on aiohttp
actions                                 what the page can do to brokers of `odradek up --console`
life                                    start and stop of all this
page/                                   what the browser gets: plain ES modules, no build step, no other host
"""
