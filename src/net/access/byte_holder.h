/* A client whose bytes are bounded over all threads and transports: an identity of the file of
 * tokens, or an address. It holds the bytes of its large bodies in receipt
 * (net/access/body_budget.h) and of its answers on their way (net/access/answer_budget.h).
 *
 * Life: made with its identity, or with its address's first connection; each body and each answer
 * has a reference. So it outlives them, and may outlive the identity's line in the file, or the
 * address's last connection. Implemented in byte_holder.c. */
#ifndef TT_NET_ACCESS_BYTE_HOLDER_H
#define TT_NET_ACCESS_BYTE_HOLDER_H

#include "base/threads/client_limits.h"
#include "base/threads/published.h"

struct tt_byte_holder {
    struct tt_shared shared;
    const char *name;    /* for sentences; lives as long as the holder */
    const char *setting; /* where the limit is from, likewise */
    int64_t bytes_limit; /* at a time; 0: none */
    struct tt_client_limits limits;
};

/* Both are NULL-safe. _ref() returns `self`. */
struct tt_byte_holder *tt_byte_holder_ref(struct tt_byte_holder *self);
void tt_byte_holder_unref(struct tt_byte_holder *self);
/* True: it holds so many bytes more; _give() gives them back. */
static inline bool tt_byte_holder_take(struct tt_byte_holder *self, int64_t bytes) {
    return tt_client_limits_take(&self->limits, bytes, self->bytes_limit);
}
static inline void tt_byte_holder_give(struct tt_byte_holder *self, int64_t bytes) {
    tt_client_limits_give(&self->limits, bytes);
}
/* The sentence for the client whose body is one too many. Returns BUSY. */
enum tt_err tt_byte_holder_refuse_body(const struct tt_byte_holder *self, struct tt_error *why);

#endif
