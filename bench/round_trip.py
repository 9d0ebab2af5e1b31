"""Synchronous produce round trips over raw sockets (Produce v7, acks=1, one 100-byte record): rate and percentiles.

python round_trip.py HOST PORT TOPIC CONNECTIONS ROUNDS [AUTHORITY]      the file of it means TLS
"""

import socket
import ssl
import struct
import sys
import time

import crc32c

host, port, topic, connections, rounds = (
    sys.argv[1],
    int(sys.argv[2]),
    sys.argv[3].encode(),
    int(sys.argv[4]),
    int(sys.argv[5]),
)
record = bytes([0, 0, 0, 1, 200, 1]) + b"x" * 100 + b"\0"
record = bytes([(len(record) << 1) & 127 | 128, (len(record) << 1) >> 7]) + record
tail = struct.pack(">hiqqqhii", 0, 0, 0, 0, -1, -1, -1, 1) + record
batch = struct.pack(">qiibI", 0, len(tail) + 9, -1, 2, crc32c.crc32c(tail)) + tail
body = struct.pack(">hhih", 0, 7, 1, -1) + struct.pack(">hhi", -1, 1, 1000)
body += struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iii", 1, 0, len(batch)) + batch
request = struct.pack(">i", len(body)) + body
sockets = [socket.create_connection((host, port)) for _ in range(connections)]
for s in sockets:
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
if len(sys.argv) > 6:
    context = ssl.create_default_context(cafile=sys.argv[6])
    sockets = [context.wrap_socket(s, server_hostname=host) for s in sockets]
times, began = [], time.perf_counter()
for i in range(rounds):
    s, sent = sockets[i % connections], time.perf_counter()
    s.sendall(request)
    answer = s.recv(4096)
    times.append(time.perf_counter() - sent)
took = time.perf_counter() - began
(error,) = struct.unpack_from(">h", answer, 4 + 4 + 4 + 2 + len(topic) + 4 + 4)
times.sort()
print(
    f"{connections} connections {rounds / took:,.0f} round trips/s p50 {times[rounds // 2] * 1e6:.0f} us "
    f"p99 {times[rounds * 99 // 100] * 1e6:.0f} us p99.9 {times[rounds * 999 // 1000] * 1e6:.0f} us error code {error}"
)
