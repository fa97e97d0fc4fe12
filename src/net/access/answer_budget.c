#include "net/access/answer_budget.h"

#include "base/log/log.h"
#include "net/access/byte_holder.h"

void tt_answer_budget_init(struct tt_answer_budget *self, struct tt_quota *quota,
                           struct tt_largest *board, struct tt_log *log) {
    tt_body_budget_init(&self->bodies, quota, board);
    self->bodies.is_timed = true;
    tt_counter_set(&self->evicted, 0);
    self->log = log;
}

void tt_answer_budget_fini(struct tt_answer_budget *self) { tt_body_budget_fini(&self->bodies); }

bool tt_answer_budget_count(struct tt_answer_budget *self, struct tt_body_part *part, int64_t bytes,
                            int64_t now_ms) {
    if (!self || bytes == part->bytes)
        return true;
    tt_assert(now_ms >= self->bodies.now_ms);
    self->bodies.now_ms = now_ms;
    return tt_body_part_set(part, &self->bodies, bytes) == TT_BODY_TAKEN;
}

void tt_answer_budget_evicted(struct tt_answer_budget *self, const struct tt_peer_address *peer,
                              int64_t bytes) {
    char address[TT_PEER_ADDRESS_TEXT_BYTES];
    tt_peer_address_write(peer, address);
    tt_counter_add(&self->evicted, 1);
    tt_log_limited(self->log, TT_LOG_WARNING, NULL,
                   "closed the connection of %s: it does not take %lld bytes of answers, and those "
                   "of all clients reach %lld bytes (--max-send-bytes)",
                   *address ? address : "a client", (long long)bytes,
                   (long long)self->bodies.share.quota->limit);
}

bool tt_answer_share_take(struct tt_answer_share *self, struct tt_byte_holder *holder,
                          int64_t bytes, struct tt_error *why) {
    if (!holder || holder->bytes_limit == 0 || bytes <= TT_BODY_SMALL)
        return true;
    bool is_alone = tt_client_limits_bytes(&holder->limits) == 0;
    if (!tt_client_limits_take(&holder->limits, bytes, is_alone ? 0 : holder->bytes_limit)) {
        (void)tt_fail(TT_ERR_BUSY, why,
                      "%s has reached its limit of %lld bytes in bodies that are being received "
                      "and answers that it has not taken (%s); take those first",
                      holder->name, (long long)holder->bytes_limit, holder->setting);
        return false;
    }
    self->holder = tt_byte_holder_ref(holder);
    self->bytes = bytes;
    return true;
}

void tt_answer_share_give(struct tt_answer_share *self) {
    if (self->holder)
        tt_byte_holder_give(self->holder, self->bytes);
    tt_byte_holder_unref(self->holder);
    self->holder = NULL;
}
