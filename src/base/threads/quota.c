#include "base/threads/quota.h"

/* ---- the whole ---- */

void tt_quota_init(struct tt_quota *self, int64_t limit) {
    tt_assert(limit >= 0);
    self->limit = limit;
    atomic_init(&self->used, 0);
}

/* An addition that is taken back where it was too much would refuse others for nothing meanwhile.
 */
bool tt_quota_take(struct tt_quota *self, int64_t amount) {
    tt_assert(amount >= 0);
    int64_t used = atomic_load_explicit(&self->used, memory_order_relaxed);
    do {
        if (amount > self->limit - used)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&self->used, &used, used + amount,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void tt_quota_give(struct tt_quota *self, int64_t amount) {
    int64_t before = atomic_fetch_sub_explicit(&self->used, amount, memory_order_relaxed);
    tt_assert(amount >= 0);
    tt_assert(before >= amount);
}

int64_t tt_quota_used(const struct tt_quota *self) {
    return atomic_load_explicit(&self->used, memory_order_relaxed);
}

/* ---- one thread's share ---- */

void tt_quota_share_init(struct tt_quota_share *self, struct tt_quota *quota) {
    int64_t piece = quota->limit / TT_QUOTA_PIECES;
    *self = (struct tt_quota_share){.quota = quota, .piece = piece > 1 ? piece : 1};
}

void tt_quota_share_fini(struct tt_quota_share *self) {
    tt_assert(self->used == 0);
    tt_quota_give(self->quota, self->held);
    self->held = 0;
}

bool tt_quota_share_take_more(struct tt_quota_share *self, int64_t amount) {
    int64_t missing = amount - (self->held - self->used), more = missing;
    if (self->piece > 1 && missing <= self->quota->limit &&
        tt_quota_take(self->quota, missing + self->piece - 1))
        more = missing + self->piece - 1;
    else if (!tt_quota_take(self->quota, missing))
        return false;
    self->held += more;
    self->used += amount;
    return true;
}

void tt_quota_share_force(struct tt_quota_share *self, int64_t amount) {
    int64_t missing = amount - (self->held - self->used);
    if (missing > 0) {
        atomic_fetch_add_explicit(&self->quota->used, missing, memory_order_relaxed);
        self->held += missing;
    }
    self->used += amount;
}

void tt_quota_share_give_back(struct tt_quota_share *self) {
    tt_assert(self->used >= 0);
    int64_t amount = self->held - self->used - (self->piece - 1);
    tt_assert(amount > 0);
    tt_quota_give(self->quota, amount);
    self->held -= amount;
}
