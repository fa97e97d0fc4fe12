#include "net/http/access_log.h"

#include "base/clock.h"
#include "net/http/exchange.h"

#include <stdio.h>

void tt_access_begin(struct tt_access *self, const char *method, const char *path) {
    self->began_at = tt_clock_now();
    snprintf(self->method, sizeof(self->method), "%s", method ? method : "");
    snprintf(self->path, sizeof(self->path), "%s", path ? path : "");
}

void tt_access_end(struct tt_access_log *self, const struct tt_access *access,
                   const struct tt_exchange *exchange, int64_t body_bytes) {
    bool is_gone = body_bytes < 0;
    const struct tt_access_line line = {.method = access->method,
                                        .path = access->path,
                                        .status = is_gone ? TT_ACCESS_CLIENT_GONE
                                                          : exchange->reply.status,
                                        .grpc_status = -1,
                                        .began_at = access->began_at,
                                        .body_bytes = is_gone ? 0 : body_bytes,
                                        .request = &exchange->request,
                                        .inference = exchange->inference};
    tt_access_log_put(self, &line);
}
