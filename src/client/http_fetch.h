/* One request and its answer, over a connection of its own; the caller waits. It uses
 * http_client.h. Implemented in http_fetch.c. */
#ifndef TT_CLIENT_HTTP_FETCH_H
#define TT_CLIENT_HTTP_FETCH_H

#include "base/text.h"
#include "client/http_address.h"

/* Gets `path` (or posts `body`, where it is not NULL). `out_body` is set if the answer's status is
 * 200; the caller frees it. UNAVAILABLE: no connection, a connection that broke, or status 503.
 * TIMEOUT: no answer in `give_up_ns`. INVALID: another status, with the server's sentence, or not
 * HTTP. */
TT_MUST_CHECK enum tt_err tt_http_fetch(const struct tt_http_address *address, const char *path,
                                        const char *body, int64_t give_up_ns,
                                        struct tt_text *out_body, struct tt_error *why);

#endif
