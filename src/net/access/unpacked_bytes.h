/* What a packed body unpacks to: bytes of its client (net/access/byte_holder.h), but for small
 * bodies, and of all clients' bodies together.
 *
 * Life: _init with a body, _take once on any thread, and _give at its end, also if nothing was
 * taken. Implemented in unpacked_bytes.c. */
#ifndef TT_NET_ACCESS_UNPACKED_BYTES_H
#define TT_NET_ACCESS_UNPACKED_BYTES_H

#include "base/threads/quota.h"
#include "net/access/byte_holder.h"

struct tt_unpacked_bytes {
    struct tt_quota *quota;        /* of all bodies; borrowed; NULL: no limit */
    struct tt_byte_holder *holder; /* a reference; NULL: none */
    int64_t of_quota, of_holder;   /* taken */
};

void tt_unpacked_bytes_init(struct tt_unpacked_bytes *self, struct tt_quota *quota,
                            struct tt_byte_holder *holder);
/* BUSY: the client has too many, `out_is_holder`, or all together have; `why` is the sentence for
 * it. */
TT_MUST_CHECK enum tt_err tt_unpacked_bytes_take(struct tt_unpacked_bytes *self, size_t bytes,
                                                 bool *out_is_holder, struct tt_error *why);
void tt_unpacked_bytes_give(struct tt_unpacked_bytes *self);

#endif
