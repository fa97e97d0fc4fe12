"""One gRPC call over a plain HTTP/2 connection, whose message is sent as slowly as a test wants. It reads no header compression:
what the server says about a call is looked for in the bytes."""
import socket
import struct

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
FRAME_BYTES = 16384
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


def frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """A header that is neither indexed nor packed."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def message_head(message_bytes):
    """It comes before a message of that length, which is not packed."""
    return b"\0" + struct.pack(">I", message_bytes)


class PlainGrpc:
    def __init__(self, port, source="127.0.0.1"):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(source, 0))
        self.socket.sendall(PREFACE)
        self.frame(SETTINGS, 0, 0, b"")
        self.window = {0: 65535, 1: 65535}
        self.first_window = 65535
        self.received = b""  # the payloads of HEADERS and GOAWAY
        self.ended = False

    def frame(self, kind, flags, stream, payload):
        self.socket.sendall(frame(kind, flags, stream, payload))

    def begin(self, path, message_bytes):
        """The headers of stream 1, and the head of a message of that length."""
        self.headers(path)
        self.put(message_head(message_bytes))

    def headers(self, path):
        headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "x", "te": "trailers",
                   "content-type": "application/grpc"}  # fmt: skip
        self.frame(HEADERS, 4, 1, b"".join(literal(n, v) for n, v in headers.items()))

    def send(self, count):
        """So many bytes of the message, as the server gives room for them."""
        while count > 0 and not self.ended:
            some = min(count, FRAME_BYTES)
            self.put(b"\1" * some)
            count -= some

    def put(self, payload):
        while min(self.window.values()) < len(payload) and not self.ended:
            self.read()
        if self.ended:
            return
        self.frame(DATA, 0, 1, payload)
        for stream in self.window:
            self.window[stream] -= len(payload)

    def exactly(self, count):
        found = b""
        while len(found) < count:
            some = self.socket.recv(count - len(found))
            if not some:
                self.ended = True
                return None
            found += some
        return found

    def read(self):
        """One frame of the server."""
        head = self.exactly(9)
        payload = self.exactly(int.from_bytes(head[:3], "big")) if head else None
        if payload is None:
            return
        kind, flags, stream = head[3], head[4], int.from_bytes(head[5:9], "big")
        if kind == WINDOW_UPDATE:
            self.window[stream] += int.from_bytes(payload, "big")
        elif kind == SETTINGS and not flags & 1:
            self.frame(SETTINGS, 1, 0, b"")
            for at in range(0, len(payload), 6):
                name, value = struct.unpack_from(">HI", payload, at)
                if name == 4:  # the first window of streams
                    self.window[1] += value - self.first_window
                    self.first_window = value
        elif kind in (HEADERS, GOAWAY):
            self.received += payload
        self.ended |= kind in (RST_STREAM, GOAWAY) or (kind in (HEADERS, DATA) and flags & 1 != 0)

    def has_ended(self):
        """Reads what is there."""
        self.socket.setblocking(False)
        try:
            while not self.ended and self.socket.recv(9, socket.MSG_PEEK):
                self.socket.settimeout(60)
                self.read()
                self.socket.setblocking(False)
        except BlockingIOError:
            pass
        finally:
            self.socket.settimeout(60)
        return self.ended

    def close(self):
        self.socket.close()
