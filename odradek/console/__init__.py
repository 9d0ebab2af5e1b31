"""The console: one web page about a cluster, live by server-sent events.

snapshot, happenings, *_view             values in, values out: what the page is told, testable without a browser
observer, journals, asking              who asks the cluster, as any client does
guard, stream, server                   HTTP, on aiohttp
page/                                   what the browser gets: plain ES modules, no build step, no other host
"""
