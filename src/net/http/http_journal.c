#include "net/http/http_journal.h"

#include "net/http/exchange.h"
#include "net/http/http_message.h"

#include <string.h>

/* As much as fits. */
static void keep(char *to, size_t capacity, const char *string) {
    size_t length = strnlen(string, capacity - 1);
    memcpy(to, string, length);
    to[length] = '\0';
}

void tt_http_journal_begin(struct tt_journal *self, struct tt_http_message *request,
                           int64_t received_at, const struct tt_peer_address *client,
                           struct tt_http_entry *out_entry) {
    tt_journal_begin(self, request ? &request->trace : NULL, received_at, &out_entry->entry);
    out_entry->client = *client;
    keep(out_entry->method, sizeof(out_entry->method), request ? request->method : "");
    keep(out_entry->path, sizeof(out_entry->path), request ? request->target : "");
}

void tt_http_journal_end(struct tt_journal *self, const struct tt_http_entry *entry,
                         const struct tt_exchange *exchange, int64_t body_bytes) {
    bool is_gone = body_bytes < 0;
    const struct tt_identity *identity = exchange->claim.identity;
    const struct tt_access_line line = {.method = entry->method,
                                        .path = entry->path,
                                        .status = is_gone ? TT_ACCESS_CLIENT_GONE
                                                          : exchange->reply.status,
                                        .grpc_status = -1,
                                        .body_bytes = is_gone ? 0 : body_bytes,
                                        .client = &entry->client,
                                        .identity = identity ? identity->name : "",
                                        .is_inference = exchange->is_inference,
                                        .request = &exchange->request,
                                        .inference = exchange->inference};
    tt_journal_end(self, &entry->entry, &line);
}
