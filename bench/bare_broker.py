"""The floor: the least Python that can serve Produce and Fetch to a real Kafka client.

One event loop, raw non-blocking sockets through `loop.add_reader`, one `recv_into` per wake-up, every complete request
in the buffer handled before one flush, CRC32C checked per batch, one `write` per append, `sendfile` per fetch. No
replication, no validation, no safety: it is a yardstick to run beside the real broker in one run, and nothing else.

    python bare_broker.py PORT PARTITIONS DIRECTORY     serves topic "t"; needs uvloop and crc32c
"""

import asyncio
import bisect
import os
import socket
import struct
import sys

import crc32c
import uvloop

I16, I32, I64 = struct.Struct(">h"), struct.Struct(">i"), struct.Struct(">q")
REQUEST_HEADER = struct.Struct(">hhih")
BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")  # 61 bytes
SERVED = [(0, 3, 7), (1, 4, 4), (2, 1, 1), (3, 1, 4), (10, 0, 1), (18, 0, 0)]


def string(text):
    data = text.encode()
    return I16.pack(len(data)) + data


class Log:
    def __init__(self, path):
        self.fd = os.open(path, os.O_CREAT | os.O_RDWR | os.O_TRUNC | os.O_APPEND, 0o644)
        self.size = self.end_offset = self.last_indexed = 0
        self.index_offsets, self.index_positions, self.waiters = [0], [0], []

    def append(self, batches):
        at, length, base = 0, len(batches), self.end_offset
        while at < length:
            _, size, _, _, crc, _, last_delta, *_ = BATCH_HEADER.unpack_from(batches, at)
            end = at + 12 + size
            if crc32c.crc32c(batches[at + 21 : end]) != crc:
                raise ValueError("crc")
            I64.pack_into(batches, at, self.end_offset)
            self.end_offset += last_delta + 1
            at = end
        os.write(self.fd, batches)
        if self.size - self.last_indexed > 4096:
            self.index_offsets.append(base)
            self.index_positions.append(self.size)
            self.last_indexed = self.size
        self.size += length
        return base

    def locate(self, offset, max_bytes):
        if offset >= self.end_offset:
            return 0, 0
        position = self.index_positions[bisect.bisect_right(self.index_offsets, offset) - 1]
        while True:
            base, size, _, _, _, _, last_delta, *_ = BATCH_HEADER.unpack(os.pread(self.fd, 61, position))
            if base + last_delta >= offset:
                return position, min(max_bytes, self.size - position)
            position += 12 + size


class Broker:
    def __init__(self, port, partitions, directory):
        os.makedirs(directory, exist_ok=True)
        self.port, self.partitions = port, partitions
        self.logs = [Log(f"{directory}/t-{p}.log") for p in range(partitions)]

    def handle(self, request):
        """Answer chunks (bytes or (fd, position, length)), None for no answer, or ('wait', ...) for a long poll."""
        key, version, correlation, client = REQUEST_HEADER.unpack_from(request)
        at, head = 10 + max(client, 0), I32.pack(correlation)
        if key == 0:
            return self.produce(request, at, head)
        if key == 1:
            return self.fetch(request, at, head)
        if key == 18:
            return [
                head
                + I16.pack(35 if version else 0)
                + I32.pack(len(SERVED))
                + b"".join(struct.pack(">hhh", *s) for s in SERVED)
            ]
        if key == 10:
            return [
                head
                + (I32.pack(0) + I16.pack(0) + I16.pack(-1) if version else I16.pack(0))
                + I32.pack(0)
                + string("127.0.0.1")
                + I32.pack(self.port)
            ]
        if key == 3:
            return [head + self.metadata(version)]
        if key == 2:
            return [head + self.list_offsets(request, at)]
        raise ValueError(f"api {key} v{version}")

    def metadata(self, version):
        out = (
            (I32.pack(0) if version >= 3 else b"")
            + I32.pack(1)
            + I32.pack(0)
            + string("127.0.0.1")
            + I32.pack(self.port)
            + I16.pack(-1)
        )
        out += string("bare") if version >= 2 else b""
        out += I32.pack(0) + I32.pack(1) + I16.pack(0) + string("t") + b"\0" + I32.pack(self.partitions)
        return out + b"".join(struct.pack(">hiiiiii", 0, p, 0, 1, 0, 1, 0) for p in range(self.partitions))

    def list_offsets(self, request, at):
        at += 4 + 4 + 3
        (count,) = I32.unpack_from(request, at)
        out, at = I32.pack(1) + string("t") + I32.pack(count), at + 4
        for _ in range(count):
            partition, timestamp = struct.unpack_from(">iq", request, at)
            out += struct.pack(">ihqq", partition, 0, -1, 0 if timestamp == -2 else self.logs[partition].end_offset)
            at += 12
        return out

    def produce(self, request, at, head):
        (size,) = I16.unpack_from(request, at)
        at += 2 + max(size, 0)
        acks, _, topics = struct.unpack_from(">hii", request, at)
        at, out = at + 10, [head, I32.pack(topics)]
        for _ in range(topics):
            at += 3
            (count,) = I32.unpack_from(request, at)
            at += 4
            out += [string("t"), I32.pack(count)]
            for _ in range(count):
                partition, size = struct.unpack_from(">ii", request, at)
                at += 8
                log = self.logs[partition]
                out.append(struct.pack(">ihqqq", partition, 0, log.append(request[at : at + size]), -1, 0))
                at += size
                waiters, log.waiters = log.waiters, []
                for fire in waiters:
                    fire()
        out.append(I32.pack(0))
        return out if acks else None

    def fetch(self, request, start, head, answer_now=False):
        _, wait_ms, min_bytes, max_bytes, _, topics = struct.unpack_from(">iiiibi", request, start)
        at, out, pending, total, logs = start + 21, [], [head + I32.pack(0) + I32.pack(topics)], 0, []
        for _ in range(topics):
            at += 3
            (count,) = I32.unpack_from(request, at)
            at += 4
            pending.append(string("t") + I32.pack(count))
            for _ in range(count):
                partition, offset, limit = struct.unpack_from(">iqi", request, at)
                at += 16
                log = self.logs[partition]
                logs.append(log)
                position, size = log.locate(offset, min(limit, max_bytes - total)) if total < max_bytes else (0, 0)
                total += size
                pending.append(struct.pack(">ihqqii", partition, 0, log.end_offset, log.end_offset, -1, size))
                if size:
                    out += [b"".join(pending), (log.fd, position, size)]
                    pending = []
        if total < min_bytes and not answer_now:
            return ("wait", wait_ms, logs, bytes(request), start, head)
        return [*out, b"".join(pending)] if pending else out


class Connection:
    def __init__(self, sock):
        self.sock, self.fd = sock, sock.fileno()
        self.buffer, self.start, self.end = bytearray(1 << 16), 0, 0
        self.out, self.writing = [], False

    def readable(self):
        buffer = self.buffer
        if len(buffer) - self.end < 32768:
            need = 65536
            if self.end - self.start >= 4:
                need = max(need, 4 + I32.unpack_from(buffer, self.start)[0] + 65536)
            grown = bytearray(need) if need > len(buffer) else buffer
            kept = self.end - self.start
            grown[:kept] = buffer[self.start : self.end]
            self.buffer, self.start, self.end = grown, 0, kept
            buffer = grown
        try:
            received = self.sock.recv_into(memoryview(buffer)[self.end :])
        except BlockingIOError:
            return
        except ConnectionResetError:
            received = 0
        if not received:
            LOOP.remove_reader(self.fd)
            LOOP.remove_writer(self.fd)
            self.sock.close()
            return
        self.end += received
        while self.end - self.start >= 4:
            (size,) = I32.unpack_from(buffer, self.start)
            if self.end - self.start < 4 + size:
                break
            answer = BROKER.handle(memoryview(buffer)[self.start + 4 : self.start + 4 + size])
            self.start += 4 + size
            if answer is None:
                continue
            if answer[0] == "wait":
                self.wait(answer)
            else:
                self.queue(answer)
        if self.start == self.end:
            self.start = self.end = 0
        if self.out and not self.writing:
            self.flush()

    def queue(self, answer):
        self.out.append(I32.pack(sum(len(c) if type(c) is bytes else c[2] for c in answer)))
        self.out.extend(answer)

    def wait(self, answer):
        _, wait_ms, logs, request, start, head = answer
        fired = []

        def fire():
            if not fired:
                fired.append(True)
                timer.cancel()
                self.queue(BROKER.fetch(memoryview(request), start, head, True))
                if not self.writing:
                    self.flush()

        timer = LOOP.call_later(wait_ms / 1000, fire)
        for log in logs:
            log.waiters.append(fire)

    def flush(self):
        out = self.out
        try:
            while out:
                chunk = out[0]
                if type(chunk) is tuple:
                    fd, position, length = chunk
                    sent = os.sendfile(self.fd, fd, position, length)
                    out[:1] = [] if sent == length else [(fd, position + sent, length - sent)]
                else:
                    count = 0
                    while count < len(out) and type(out[count]) is not tuple:
                        count += 1
                    data = b"".join(out[:count])
                    sent = self.sock.send(data, socket.MSG_MORE if count < len(out) else 0)
                    out[:count] = [] if sent == len(data) else [data[sent:]]
        except BlockingIOError:
            if not self.writing:
                LOOP.add_writer(self.fd, self.flush)
                self.writing = True
            return
        except OSError:
            return
        if self.writing:
            LOOP.remove_writer(self.fd)
            self.writing = False


def accept():
    while True:
        try:
            sock, _ = LISTENER.accept()
        except BlockingIOError:
            return
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        LOOP.add_reader(sock.fileno(), Connection(sock).readable)


async def main(port, partitions, directory):
    global LOOP, BROKER, LISTENER
    LOOP, BROKER = asyncio.get_running_loop(), Broker(port, partitions, directory)
    LISTENER = socket.create_server(("127.0.0.1", port), backlog=1024)
    LISTENER.setblocking(False)
    LOOP.add_reader(LISTENER.fileno(), accept)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.install()
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
