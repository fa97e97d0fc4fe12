#include "policy/joining.h"

#include "core/profile.h"

static int64_t alone_ns(const struct tt_joining *self, const struct tt_request *request) {
    return tt_profile_latency(self->model->whole, request->rows, request->length);
}

static int64_t waited_ns(const struct tt_joining *self, const struct tt_request *request) {
    return self->now - request->arrived_at;
}

static void add(struct tt_joining_line *line, const struct tt_joining *self,
                const struct tt_request *request) {
    line->takes_ns += alone_ns(self, request);
    line->rows += request->rows;
    line->ends_ns += (__int128)(waited_ns(self, request) + line->takes_ns) * request->rows;
}

void tt_joining_begin(struct tt_joining *self, const struct tt_step_model *model, int64_t now) {
    *self = (struct tt_joining){.model = model, .now = now};
}

void tt_joining_expect(struct tt_joining *self, const struct tt_request *request) {
    add(&self->all, self, request);
}

void tt_joining_join(struct tt_joining *self, const struct tt_request *request) {
    add(&self->before, self, request);
    self->held += request->rows;
    self->held_waited_ns += (__int128)waited_ns(self, request) * request->rows;
    if (request->length > self->held_length)
        self->held_length = request->length;
}

void tt_joining_pass(struct tt_joining *self, const struct tt_request *request) {
    add(&self->before, self, request);
    add(&self->passed, self, request);
}

/* The change of a sum of `count` squared latencies, which together are `sum_ns`, if each latency
 * grows by `more_ns`. */
static __int128 growth(__int128 sum_ns, int64_t count, int64_t more_ns) {
    return (2 * sum_ns + (__int128)count * more_ns) * more_ns;
}

bool tt_joining_pays(const struct tt_joining *self, const struct tt_request *request) {
    tt_assert(self->held > 0);
    const struct tt_profile *whole = self->model->whole;
    int32_t length = self->held_length > request->length ? self->held_length : request->length;
    int64_t held_ns = tt_profile_latency(whole, self->held, self->held_length);
    int64_t more_ns = tt_profile_latency(whole, self->held + request->rows, length) - held_ns;
    int64_t takes_ns = alone_ns(self, request), saved_ns = takes_ns - more_ns;
    /* The future without the join: the requests that the newcomer delays, the newcomer, the
     * requests behind it. */
    int64_t turn_ns = held_ns + self->passed.takes_ns;
    int64_t front = self->held + self->passed.rows;
    __int128 front_ns = self->held_waited_ns + self->passed.ends_ns + (__int128)held_ns * front;
    int64_t own_ns = waited_ns(self, request) + turn_ns + takes_ns;
    struct tt_joining_line until = self->before;
    add(&until, self, request);
    int64_t back = self->all.rows - until.rows;
    __int128 back_ns =
        self->all.ends_ns - until.ends_ns + (__int128)(turn_ns + takes_ns - until.takes_ns) * back;
    return growth(front_ns, front, more_ns) +
               growth((__int128)own_ns * request->rows, request->rows,
                      -saved_ns - self->passed.takes_ns) +
               growth(back_ns, back, -saved_ns) <=
           0;
}
