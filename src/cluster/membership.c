#include "cluster/membership.h"

#include "base/instant.h"

#define RETRY_NS TT_S

void tt_membership_init(struct tt_membership *self, int64_t now, const char *name,
                        const char *value, int64_t ttl_ns, int64_t timeout_ns) {
    tt_assert(ttl_ns > 0 && timeout_ns > 0);
    *self = (struct tt_membership){.name = name,
                                   .value = value,
                                   .ttl_ns = ttl_ns,
                                   .timeout_ns = timeout_ns,
                                   .member = {.retry_at = now},
                                   .record = {.retry_at = TT_NEVER}};
}

static void send(struct tt_membership *self, int64_t now, struct tt_membership_call *call,
                 struct tt_coordination_request request) {
    tt_assert(call->number == 0);
    *call = (struct tt_membership_call){
        .number = ++self->numbers, .sent_at = now, .retry_at = TT_NEVER};
    request.number = call->number;
    self->send(self->context, &request);
}

/* ---- the member ---- */

static void send_member(struct tt_membership *self, int64_t now) {
    struct tt_coordination_request request = {
        .lease = self->lease, .ttl_ns = self->ttl_ns, .name = self->name, .value = self->value};
    switch (self->state) {
    case TT_MEMBERSHIP_OUT:
        self->state = TT_MEMBERSHIP_LEASING;
        request.verb = TT_COORDINATION_LEASE;
        break;
    case TT_MEMBERSHIP_LEASING: request.verb = TT_COORDINATION_LEASE; break;
    case TT_MEMBERSHIP_JOINING: request.verb = TT_COORDINATION_JOIN; break;
    case TT_MEMBERSHIP_IN: request.verb = TT_COORDINATION_KEEP; break;
    }
    send(self, now, &self->member, request);
}

/* With the lease the service may have lost the record, and count its revisions anew: what it has is
 * asked again, and the wanted epoch recorded if that is higher. */
static void doubt_record(struct tt_membership *self, int64_t now) {
    self->known_epoch = 0;
    self->known_revision = 0;
    if (self->wanted_epoch > 0 && self->record.number == 0)
        self->record.retry_at = now;
}

static void member_answered(struct tt_membership *self, int64_t now, int64_t sent_at,
                            const struct tt_coordination_answer *answer) {
    if (answer->err) {
        bool is_gone = answer->err == TT_ERR_NOT_FOUND; /* the lease */
        self->failures += !is_gone;
        if (is_gone) {
            self->state = TT_MEMBERSHIP_OUT;
            doubt_record(self, now);
        }
        self->member.retry_at = is_gone ? now : tt_instant_add(now, RETRY_NS);
        return;
    }
    if (self->state == TT_MEMBERSHIP_LEASING) {
        self->lease = answer->lease;
        self->state = TT_MEMBERSHIP_JOINING;
        send_member(self, now);
        return;
    }
    self->state = TT_MEMBERSHIP_IN;
    int64_t ttl_ns = answer->ttl_ns > 0 ? answer->ttl_ns : self->ttl_ns;
    self->member.retry_at = tt_instant_max(tt_instant_add(sent_at, ttl_ns / 3), now);
}

void tt_membership_leave(struct tt_membership *self) {
    if (self->state != TT_MEMBERSHIP_JOINING && self->state != TT_MEMBERSHIP_IN)
        return;
    const struct tt_coordination_request request = {
        .verb = TT_COORDINATION_LEAVE, .number = ++self->numbers, .lease = self->lease};
    self->send(self->context, &request);
    self->state = TT_MEMBERSHIP_OUT;
    self->member = (struct tt_membership_call){.retry_at = TT_NEVER};
}

/* ---- the record ---- */

static void swap(struct tt_membership *self, int64_t now) {
    send(self, now, &self->record,
         (struct tt_coordination_request){.verb = TT_COORDINATION_SWAP,
                                          .epoch = self->wanted_epoch,
                                          .revision = self->known_revision});
}

static void report(struct tt_membership *self, int64_t now) {
    if (self->recorded && self->wanted_epoch > 0)
        self->recorded(self->context, now, self->known_epoch);
}

void tt_membership_record(struct tt_membership *self, int64_t now, uint64_t epoch) {
    if (epoch <= self->wanted_epoch)
        return;
    self->wanted_epoch = epoch;
    if (self->known_epoch >= epoch)
        report(self, now);
    else if (self->record.number == 0)
        swap(self, now);
}

/* The answer may be to an earlier wish than the present one. */
static void record_answered(struct tt_membership *self, int64_t now,
                            const struct tt_coordination_answer *answer) {
    if (answer->err) {
        self->failures++;
        self->record.retry_at = tt_instant_add(now, RETRY_NS);
        return;
    }
    self->known_epoch = answer->epoch;
    self->known_revision = answer->revision;
    if (self->known_epoch < self->wanted_epoch)
        swap(self, now);
    else
        report(self, now);
}

void tt_membership_saw(struct tt_membership *self, int64_t now, uint64_t epoch, int64_t revision) {
    if (revision <= self->known_revision)
        return;
    self->known_epoch = epoch;
    self->known_revision = revision;
    if (epoch > self->wanted_epoch)
        report(self, now);
    else if (epoch < self->wanted_epoch && self->record.number == 0)
        swap(self, now); /* the service has lost what was recorded */
}

/* ---- what the owner reports ---- */

/* True: it answers this call, which is over. */
static bool ends(struct tt_membership_call *call, const struct tt_coordination_answer *answer) {
    if (call->number == 0 || call->number != answer->number)
        return false;
    call->number = 0;
    return true;
}

void tt_membership_answered(struct tt_membership *self, int64_t now,
                            const struct tt_coordination_answer *answer) {
    if (ends(&self->member, answer))
        member_answered(self, now, self->member.sent_at, answer);
    else if (ends(&self->record, answer))
        record_answered(self, now, answer);
}

static bool is_late(const struct tt_membership *self, const struct tt_membership_call *call,
                    int64_t now) {
    return call->number != 0 && now >= tt_instant_add(call->sent_at, self->timeout_ns);
}

static bool is_due(const struct tt_membership_call *call, int64_t now) {
    return call->number == 0 && now >= call->retry_at;
}

void tt_membership_tick(struct tt_membership *self, int64_t now) {
    struct tt_coordination_answer none = {.err = TT_ERR_TIMEOUT};
    if (is_late(self, &self->member, now)) {
        none.number = self->member.number;
        tt_membership_answered(self, now, &none);
    }
    if (is_late(self, &self->record, now)) {
        none.number = self->record.number;
        tt_membership_answered(self, now, &none);
    }
    if (is_due(&self->member, now))
        send_member(self, now);
    if (is_due(&self->record, now))
        swap(self, now);
}

static int64_t call_next_at(const struct tt_membership *self,
                            const struct tt_membership_call *call) {
    return call->number ? tt_instant_add(call->sent_at, self->timeout_ns) : call->retry_at;
}

int64_t tt_membership_next_at(const struct tt_membership *self) {
    return tt_instant_min(call_next_at(self, &self->member), call_next_at(self, &self->record));
}

void tt_membership_check(const struct tt_membership *self) {
    tt_assert(self->member.number <= self->numbers && self->record.number <= self->numbers);
    tt_assert(self->member.number == 0 || self->member.number != self->record.number);
    bool is_leased = self->state == TT_MEMBERSHIP_JOINING || self->state == TT_MEMBERSHIP_IN;
    tt_assert(!is_leased || self->lease != 0);
    bool is_recorded = self->known_epoch >= self->wanted_epoch;
    bool is_pursued = self->record.number != 0 || self->record.retry_at != TT_NEVER;
    tt_assert(is_recorded || is_pursued);
}
