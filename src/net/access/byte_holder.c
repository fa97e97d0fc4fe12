#include "net/access/byte_holder.h"

struct tt_byte_holder *tt_byte_holder_ref(struct tt_byte_holder *self) {
    if (self)
        tt_refcount_ref(&self->shared.references);
    return self;
}

void tt_byte_holder_unref(struct tt_byte_holder *self) {
    if (self)
        tt_shared_unref(&self->shared);
}

enum tt_err tt_byte_holder_refuse_body(const struct tt_byte_holder *self, struct tt_error *why) {
    return tt_fail(TT_ERR_BUSY, why,
                   "%s has reached its limit of %lld bytes of bodies in receipt at a time (%s); "
                   "send fewer at a time",
                   self->name, (long long)self->bytes_limit, self->setting);
}
