/* One question, one answer: a document of a server, over a connection of its own, waited for. */
#ifndef TT_CLIENT_HTTP_FETCH_H
#define TT_CLIENT_HTTP_FETCH_H

#include "base/text.h"
#include "client/http_address.h"

/* Gets `path` (or posts `body`, where it is not NULL) and waits for the answer. `out_body` is the
 * caller's to free, set where the answer's status is 200. UNAVAILABLE: nobody is there, or went
 * away, or status 503; TIMEOUT; INVALID: another status or no HTTP, with what the server says. */
TT_MUST_CHECK enum tt_err tt_http_fetch(const struct tt_http_address *address, const char *path,
                                        const char *body, int64_t give_up_ns,
                                        struct tt_text *out_body, struct tt_error *why);

#endif
