"""How the tests of a running server reach it: over HTTP/1.1, over HTTP/2 by prior knowledge (h2c), or over HTTP/2 with TLS
(h2), as $TUTTI_TRANSPORT says; the tests are the same. $TUTTI_CA names the certificate that signed the server's."""
import http.client
import os
import ssl

TRANSPORTS = ("http1", "h2c", "h2")


def transport():
    return os.environ.get("TUTTI_TRANSPORT", "http1")


def connect(address, timeout=60):
    """A connection with the interface of http.client."""
    if transport() == "http1":
        return http.client.HTTPConnection(address, timeout=timeout)
    from http2_client import Http2Connection

    context = ssl.create_default_context(cafile=os.environ["TUTTI_CA"]) if transport() == "h2" else None
    return Http2Connection(address, timeout, context)


def triton_client(address, **options):
    """tritonclient, whose requests take one connection over HTTP/2 where that is the transport."""
    import tritonclient.http

    client = tritonclient.http.InferenceServerClient(address, **options)
    if transport() != "http1":
        client._client_stub.close()
        client._client_stub = connect(address)
    return client
