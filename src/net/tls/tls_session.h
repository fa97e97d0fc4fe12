/* One TLS connection without I/O: received bytes in, plain bytes out, and the other way.
 *
 * Life: new, for a server or a client; bytes from the socket go in by `_feed`, followed by `_read`
 * until it returns MORE; the handshake is a part of that. `_write` encrypts. Whatever is to be
 * sent, also by the handshake, is appended to `out`; the owner writes it to the socket and clears
 * it.
 * `_end` appends the end of the stream.
 *
 * Reading takes all bytes that were fed: between calls a session keeps at most one record that is
 * not complete. It never touches a socket and has no time limits: those are its owner's. One
 * thread. Implemented in tls_session.c. */
#ifndef TT_NET_TLS_TLS_SESSION_H
#define TT_NET_TLS_TLS_SESSION_H

#include "base/text.h"
#include "net/tls/tls_context.h"

enum tt_tls_protocol {
    TT_TLS_HTTP1,
    TT_TLS_HTTP2,
    TT_TLS_HTTP, /* HTTP/2 if the client offers it, else HTTP/1.1 */
};

enum tt_tls_event {
    TT_TLS_MORE,   /* nothing to read until more is fed */
    TT_TLS_DATA,   /* plain bytes */
    TT_TLS_END,    /* the peer ended the stream */
    TT_TLS_FAILED, /* not TLS, or the peer is refused; send `out`, then close */
};

struct tt_tls_session {
    SSL *ssl;
    enum tt_tls_protocol protocol;
    const char *fed; /* during _feed to the last _read */
    size_t fed_bytes;
    struct tt_text out;
    const char *reason;  /* of the first error; NULL: none */
    int32_t *open_count; /* of its loop: counts it until it is freed; NULL: none */
    bool is_established; /* the handshake is over */
    bool is_failed;
};

/* NULL: no memory. */
struct tt_tls_session *tt_tls_session_new(const struct tt_tls_context *context,
                                          enum tt_tls_protocol protocol);
/* A client; it accepts certificates for `host`, a name or an address. The first bytes are in `out`.
 * NULL: no memory. */
struct tt_tls_session *tt_tls_session_connect(const struct tt_tls_context *context,
                                              const char *host);
/* NULL-safe. */
void tt_tls_session_free(struct tt_tls_session *take_self);
/* `bytes` are borrowed until _read has returned something else than DATA. */
void tt_tls_session_feed(struct tt_tls_session *self, const char *bytes, size_t count);
/* At most `size` plain bytes. */
enum tt_tls_event tt_tls_session_read(struct tt_tls_session *self, char *to, size_t size,
                                      size_t *out_count);
/* After the handshake. False: it failed. */
bool tt_tls_session_write(struct tt_tls_session *self, const void *bytes, size_t count);
void tt_tls_session_end(struct tt_tls_session *self);
/* After the handshake: both sides chose HTTP/2. */
bool tt_tls_session_is_http2(const struct tt_tls_session *self);
/* After FAILED: what was wrong, for a person. */
const char *tt_tls_session_reason(const struct tt_tls_session *self);

#endif
