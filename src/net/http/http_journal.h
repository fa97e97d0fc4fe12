/* The journal (net/kserve/request_journal.h) of a request of HTTP.
 *
 * Life of an entry: `tt_http_journal_begin` when a request is complete keeps what its connection
 * forgets; `tt_http_journal_end` when the reply was written, or its client has gone. Implemented in
 * http_journal.c. */
#ifndef TT_NET_HTTP_HTTP_JOURNAL_H
#define TT_NET_HTTP_HTTP_JOURNAL_H

#include "net/kserve/request_journal.h"

struct tt_exchange;
struct tt_http_message;

enum {
    TT_HTTP_ENTRY_PATH_BYTES = 240, /* longer paths are cut off */
    TT_HTTP_ENTRY_METHOD_BYTES = 16
};

/* What a request leaves behind until its end; the caller's memory. */
struct tt_http_entry {
    struct tt_journal_entry entry;
    struct tt_peer_address client;
    char method[TT_HTTP_ENTRY_METHOD_BYTES], path[TT_HTTP_ENTRY_PATH_BYTES];
};

/* `request` NULL: it was not understood. `received_at`: its first byte. */
void tt_http_journal_begin(struct tt_journal *self, struct tt_http_message *request,
                           int64_t received_at, const struct tt_peer_address *client,
                           struct tt_http_entry *out_entry);
/* `body_bytes` of the reply were sent; -1: the client has gone before that. */
void tt_http_journal_end(struct tt_journal *self, const struct tt_http_entry *entry,
                         const struct tt_exchange *exchange, int64_t body_bytes);

#endif
