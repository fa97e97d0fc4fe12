/* Access control of one HTTP request: the operation of its route, the identity of its token, and
 * the audit line.
 *
 * Life of a claim: cleared; init with a complete request, which allows it or fills the
 * reply; fini with the status of the reply. It holds what the request takes of its identity's
 * limits. Implemented in http_access.c. */
#ifndef TT_NET_HTTP_HTTP_ACCESS_H
#define TT_NET_HTTP_HTTP_ACCESS_H

#include "net/http/http_routes.h"

enum { TT_HTTP_CLAIM_TARGET_BYTES = 120 };

struct tt_http_claim {
    struct tt_identity *identity; /* NULL: none */
    bool is_counted;              /* it is one of the identity's inferences */
    bool is_audited;
    char method[8], target[TT_HTTP_CLAIM_TARGET_BYTES]; /* while is_audited; cut off */
};

/* Not cleared as a whole: its arrays are long and mostly unused. */
static inline void tt_http_claim_clear(struct tt_http_claim *self) {
    self->identity = NULL;
    self->is_counted = self->is_audited = false;
}
/* False: the reply says why not. */
bool tt_http_claim_init(struct tt_http_claim *self, const struct tt_http_context *context,
                        const struct tt_http_request *request, struct tt_reply *reply);
/* `status` 0: the client left before its reply. */
void tt_http_claim_fini(struct tt_http_claim *self, const struct tt_http_context *context,
                        int status);

#endif
