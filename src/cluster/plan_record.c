#include "cluster/plan_record.h"

#include "base/instant.h"

#define RETRY_NS TT_S

void tt_plan_record_init(struct tt_plan_record *self, int64_t timeout_ns) {
    tt_assert(timeout_ns > 0);
    *self = (struct tt_plan_record){.timeout_ns = timeout_ns, .call = {.retry_at = TT_NEVER}};
    tt_text_init(&self->text);
}

void tt_plan_record_fini(struct tt_plan_record *self) { tt_text_fini(&self->text); }

static void swap(struct tt_plan_record *self, int64_t now) {
    tt_assert(self->call.number == 0 && self->is_wanted);
    self->is_stale = false;
    self->call = (struct tt_membership_call){
        .number = TT_PLAN_RECORD_NUMBERS | ++self->numbers, .sent_at = now, .retry_at = TT_NEVER};
    const struct tt_coordination_request request = {.verb = TT_COORDINATION_SWAP,
                                                    .key = TT_COORDINATION_PLACEMENT,
                                                    .number = self->call.number,
                                                    .epoch = self->epoch,
                                                    .revision = self->revision,
                                                    .value = tt_text_string(&self->text)};
    self->send(self->context, &request);
}

void tt_plan_record_write(struct tt_plan_record *self, int64_t now, uint64_t epoch,
                          const char *text) {
    tt_text_clear(&self->text);
    tt_text_puts(&self->text, text);
    self->epoch = epoch;
    self->is_wanted = true;
    if (self->call.number != 0)
        self->is_stale = true; /* this one is sent after its answer */
    else
        swap(self, now);
}

static void end(struct tt_plan_record *self, int64_t now, bool is_recorded) {
    self->is_wanted = false;
    self->call.retry_at = TT_NEVER;
    self->ended(self->context, now, is_recorded);
}

void tt_plan_record_answered(struct tt_plan_record *self, int64_t now,
                             const struct tt_coordination_answer *answer) {
    if (self->call.number == 0 || answer->number != self->call.number)
        return;
    self->call.number = 0;
    if (answer->err) {
        self->failures++;
        self->call.retry_at = tt_instant_add(now, RETRY_NS);
        return;
    }
    self->revision = answer->revision;
    bool is_later = !answer->is_done && answer->epoch > self->epoch;
    if (is_later || (answer->is_done && !self->is_stale))
        end(self, now, !is_later);
    else
        swap(self, now);
}

void tt_plan_record_tick(struct tt_plan_record *self, int64_t now) {
    if (now < tt_plan_record_next_at(self))
        return;
    if (self->call.number != 0)
        tt_plan_record_answered(
            self, now,
            &(struct tt_coordination_answer){.number = self->call.number, .err = TT_ERR_TIMEOUT});
    else
        swap(self, now);
}

int64_t tt_plan_record_next_at(const struct tt_plan_record *self) {
    return self->call.number ? tt_instant_add(self->call.sent_at, self->timeout_ns)
                             : self->call.retry_at;
}

void tt_plan_record_check(const struct tt_plan_record *self) {
    bool is_pursued = self->call.number != 0 || self->call.retry_at != TT_NEVER;
    tt_assert(self->is_wanted == is_pursued);
    tt_assert(self->call.number == 0 || self->call.number > TT_PLAN_RECORD_NUMBERS);
    tt_assert(!self->is_stale || self->call.number != 0);
}
