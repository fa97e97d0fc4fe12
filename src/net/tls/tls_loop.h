/* What the TLS connections of one event loop share: the certificates in force, and memory that
 * connections use only during a call, so that an idle connection keeps little.
 *
 * A reply is many pieces of memory. `_add` gathers short ones, so that they share a record, and
 * encrypts long ones in their place; `_end` encrypts what is gathered. One thread. Implemented in
 * tls_loop.c. */
#ifndef TT_NET_TLS_TLS_LOOP_H
#define TT_NET_TLS_TLS_LOOP_H

#include "net/tls/tls_session.h"

enum {
    TT_TLS_RECORD_BYTES = 16384,
    TT_TLS_PLAIN_BYTES = 65536,
    TT_TLS_SEAL_BYTES = 262144, /* of one write to the socket, about */
    TT_TLS_QUICK_SESSIONS = 512 /* that keep OpenSSL's buffers, 34 KB, while they are idle */
};

struct tt_tls_loop {
    struct tt_tls_server *server; /* borrowed */
    struct tt_published_view view;
    int32_t open_count;   /* sessions */
    struct tt_text spare; /* memory for `out` of the next session that writes */
    size_t gathered_bytes;
    char gathered[TT_TLS_RECORD_BYTES];
    char plain[TT_TLS_PLAIN_BYTES]; /* for what a session reads */
};

/* NULL: no memory. */
struct tt_tls_loop *tt_tls_loop_new(struct tt_tls_server *server);
/* NULL-safe. */
void tt_tls_loop_free(struct tt_tls_loop *take_self);
/* A session of a client that was accepted; NULL: no memory. */
struct tt_tls_session *tt_tls_loop_accept(struct tt_tls_loop *self, enum tt_tls_protocol protocol);
/* Encrypts into `session->out`, or gathers. False: the session has failed. */
bool tt_tls_loop_add(struct tt_tls_loop *self, struct tt_tls_session *session, const void *bytes,
                     size_t count);
bool tt_tls_loop_end(struct tt_tls_loop *self, struct tt_tls_session *session);
/* `session->out` was written: empties it, and keeps its memory for others. */
void tt_tls_loop_written(struct tt_tls_loop *self, struct tt_tls_session *session);

#endif
