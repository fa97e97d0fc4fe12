#include "net/access/unpacked_bytes.h"

#include "net/access/body_budget.h"

void tt_unpacked_bytes_init(struct tt_unpacked_bytes *self, struct tt_quota *quota,
                            struct tt_byte_holder *holder) {
    *self = (struct tt_unpacked_bytes){.quota = quota, .holder = tt_byte_holder_ref(holder)};
}

enum tt_err tt_unpacked_bytes_take(struct tt_unpacked_bytes *self, size_t bytes,
                                   bool *out_is_holder, struct tt_error *why) {
    int64_t count = (int64_t)bytes;
    *out_is_holder = false;
    if (self->holder && count > TT_BODY_SMALL) {
        if (!tt_byte_holder_take(self->holder, count)) {
            *out_is_holder = true;
            return tt_byte_holder_refuse_body(self->holder, why);
        }
        self->of_holder = count;
    }
    if (!self->quota)
        return TT_OK;
    if (!tt_quota_take(self->quota, count))
        return tt_fail(TT_ERR_BUSY, why,
                       "the bodies of all requests take %lld bytes, and with the %lld that this "
                       "one unpacks to more than the limit of %lld; try again later",
                       (long long)tt_quota_used(self->quota), (long long)count,
                       (long long)self->quota->limit);
    self->of_quota = count;
    return TT_OK;
}

void tt_unpacked_bytes_give(struct tt_unpacked_bytes *self) {
    if (self->of_quota)
        tt_quota_give(self->quota, self->of_quota);
    if (self->of_holder)
        tt_byte_holder_give(self->holder, self->of_holder);
    tt_byte_holder_unref(self->holder);
    *self = (struct tt_unpacked_bytes){.quota = NULL};
}
