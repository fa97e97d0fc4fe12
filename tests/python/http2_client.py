"""A client of HTTP/2 for tests, over a socket or TLS: the interface of http.client.HTTPConnection for one request after
another, and streams by their numbers for many at once."""
import email.message
import socket

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.settings


class Stream:
    """What has come of an answer so far."""

    def __init__(self):
        self.status = None
        self.informed = []  # statuses of 1xx
        self.headers = email.message.Message()
        self.body = bytearray()
        self.ended = False
        self.reset = None  # the error code


class Answer:
    """As an answer of http.client, and of geventhttpclient: its head has come, its body perhaps not."""

    def __init__(self, connection, number):
        self.connection, self.number = connection, number
        self.stream = connection.streams[number]
        self.status = self.status_code = self.stream.status
        self.headers = self.stream.headers

    def read(self, length=None):
        body = self.connection.wait(self.number).body
        taken = bytes(body if length is None else body[: int(length)])
        del body[: len(taken)]
        return taken

    def __iter__(self):
        """Lines as they come."""
        body = self.stream.body
        while True:
            end = body.find(b"\n") + 1
            if end:
                line = bytes(body[:end])
                del body[:end]
                yield line
            elif self.stream.ended:
                return
            else:
                self.connection.receive()

    def get(self, name):
        return self.headers.get(name)

    def getheader(self, name):
        return self.headers.get(name)

    def close(self):
        if not self.stream.ended:
            self.connection.cancel(self.number)


class Http2Connection:
    """`context` of ssl: the handshake chooses h2; else prior knowledge. `window`: of a stream, at first."""

    def __init__(self, address, timeout=60, context=None, window=None, path=None, source=None):
        self.authority, self.context, self.timeout = address, context, timeout
        host, port = address.rsplit(":", 1)
        if path:  # of a Unix socket
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.settimeout(timeout)
            self.socket.connect(path)
        else:
            self.socket = socket.create_connection((host, int(port)), timeout, (source, 0) if source else None)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            context.set_alpn_protocols(["h2", "http/1.1"])
            self.socket = context.wrap_socket(self.socket, server_hostname=host)
            if self.socket.selected_alpn_protocol() != "h2":
                raise ConnectionError("the server chose " + str(self.socket.selected_alpn_protocol()))
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8", validate_outbound_headers=False)
        self.http2 = h2.connection.H2Connection(config)
        self.http2.initiate_connection()
        if window is not None:
            self.http2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.streams, self.goaway, self.last, self.read = {}, None, None, b""
        self.gives_credit = window is None
        self.flush()

    def flush(self):
        self.socket.sendall(self.http2.data_to_send())

    def start(self, method, path, body=None, headers=None, end=True):
        """Begins a request; its stream. `end` False: its body goes on with `send`. A header Host is the authority."""
        if isinstance(body, str):
            body = body.encode()
        number = self.http2.get_next_available_stream_id()
        headers = dict(headers or {})
        fields = [(":method", method), (":path", path), (":authority", headers.pop("Host", self.authority))]
        fields.append((":scheme", "https" if self.context else "http"))
        if body is not None and end:
            fields.append(("content-length", str(len(body))))
        fields += [(name.lower(), str(value)) for name, value in headers.items()]
        self.streams[number] = Stream()
        self.http2.send_headers(number, fields, end_stream=end and not body)
        self.flush()
        if body:
            self.send(number, body, end)
        return number

    def send(self, number, body, end=False):
        """As much as the server wants: one that has answered wants no more."""
        stream, at = self.streams[number], 0
        while at < len(body) and not stream.ended and stream.reset is None:
            room = min(self.http2.local_flow_control_window(number), self.http2.max_outbound_frame_size)
            piece = body[at : at + room]
            at += len(piece)
            if piece:
                self.http2.send_data(number, bytes(piece), end_stream=end and at == len(body))
                self.flush()
            else:
                self.receive()
        if end and not body:
            self.http2.end_stream(number)
            self.flush()

    def receive(self):
        """Waits for bytes, and takes them."""
        bytes_read = self.socket.recv(65536)
        if not bytes_read:
            raise ConnectionError("the server has closed the connection")
        self.read += bytes_read
        while len(self.read) >= 9 and len(self.read) >= (end := 9 + int.from_bytes(self.read[:3], "big")):
            frame, self.read = self.read[:end], self.read[end:]
            for event in self.http2.receive_data(frame):
                self.take(event)
        try:
            self.flush()
        except ConnectionError:
            pass  # the server has closed after what it sent, which the next reading shows

    def take(self, event):
        stream = self.streams.get(getattr(event, "stream_id", None))
        if isinstance(event, h2.events.ConnectionTerminated):
            self.goaway, self.last = event.error_code, event.last_stream_id
            # The library takes nothing more then; the server still answers what has begun.
            self.http2.state_machine.state = h2.connection.ConnectionState.CLIENT_OPEN
        elif isinstance(event, h2.events.InformationalResponseReceived):
            stream.informed.append(int(dict(event.headers)[":status"]))
        elif isinstance(event, h2.events.ResponseReceived):
            for name, value in event.headers:
                if name == ":status":
                    stream.status = int(value)
                else:
                    stream.headers[name] = value
        elif isinstance(event, h2.events.DataReceived):
            stream.body += event.data
            if self.gives_credit:
                self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamEnded):
            stream.ended = True
        elif isinstance(event, h2.events.StreamReset) and not stream.ended:
            stream.reset = event.error_code

    def wait_head(self, number):
        stream = self.streams[number]
        while stream.status is None and stream.reset is None:
            self.receive()
        if stream.status is None:
            raise ConnectionResetError("the server has reset the stream: %s" % stream.reset)
        return number

    def wait(self, number):
        """The stream when its answer is complete."""
        stream = self.streams[number]
        while not stream.ended and stream.reset is None:
            self.receive()
        if stream.reset is not None:
            raise ConnectionResetError("the server has reset the stream: %s" % stream.reset)
        return stream

    def cancel(self, number):
        self.http2.reset_stream(number, h2.errors.ErrorCodes.CANCEL)
        self.flush()

    def wait_end(self):
        """Until the server has closed the connection; the code of its GOAWAY, None: it sent none."""
        try:
            while True:
                self.receive()
        except ConnectionError:
            return self.goaway

    # --- as http.client.HTTPConnection ---

    @property
    def sock(self):
        return self.socket

    def connect(self):
        pass

    def request(self, method, url, body=None, headers=None):
        self.number = self.start(method, url, body, headers)

    def getresponse(self):
        return Answer(self, self.wait_head(self.number))

    def close(self):
        self.socket.close()

    # --- as geventhttpclient's HTTPClient, which tritonclient uses ---

    def get(self, request_uri, headers=None):
        self.request("GET", request_uri, None, headers)
        return self.getresponse()

    def post(self, request_uri, body=b"", headers=None):
        self.request("POST", request_uri, body, headers)
        return self.getresponse()
