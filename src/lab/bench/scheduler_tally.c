#include "lab/bench/scheduler_tally.h"

#include <stdlib.h>
#include <string.h>

enum tt_err tt_scheduler_tally_init(struct tt_scheduler_tally *self, int32_t threads,
                                    int64_t from_at, int64_t to_at, int64_t margin_ns) {
    size_t bytes = sizeof(struct tt_scheduler_tally_thread) * (size_t)threads;
    *self = (struct tt_scheduler_tally){.from_at = from_at,
                                        .to_at = to_at,
                                        .margin_ns = margin_ns,
                                        .thread_count = threads,
                                        .threads = aligned_alloc(64, bytes)};
    if (!self->threads)
        return TT_ERR_NO_MEMORY;
    memset((void *)self->threads, 0, bytes);
    return TT_OK;
}

void tt_scheduler_tally_fini(struct tt_scheduler_tally *self) {
    free((void *)self->threads);
    self->threads = NULL;
}

static bool in_window(const struct tt_scheduler_tally *self, int64_t at) {
    return at >= self->from_at && at < self->to_at;
}

static void ended(void *context, int32_t thread, int64_t now,
                  const struct tt_multicore_batch *batch) {
    struct tt_scheduler_tally *self = context;
    struct tt_scheduler_tally_thread *t = &self->threads[thread];
    const struct tt_device_request *first = &batch->requests[0];
    const struct tt_device_request *last = &batch->requests[batch->head.count - 1];
    int64_t in_time_from =
        batch->head.ended_at - self->margin_ns; /* the smallest deadline that is in time */
    (void)now;
    t->device_ns += batch->head.ended_at - batch->head.started_at;
    if (first->deadline_at >= in_time_from && in_window(self, first->arrived_at) &&
        in_window(self, last->arrived_at)) {
        t->in_time += batch->head.count;
    } else {
        for (int32_t i = 0; i < batch->head.count; i++) {
            if (!in_window(self, batch->requests[i].arrived_at))
                continue;
            if (batch->requests[i].deadline_at >= in_time_from)
                t->in_time++;
            else
                t->late++;
        }
    }
    tt_counter_add(&t->answered, batch->head.count);
}

static void dropped(void *context, int32_t thread, int64_t now,
                    const struct tt_device_request *request, enum tt_drop_reason reason) {
    struct tt_scheduler_tally *self = context;
    struct tt_scheduler_tally_thread *t = &self->threads[thread];
    (void)now;
    if (in_window(self, request->arrived_at))
        t->dropped[reason]++;
    tt_counter_add(&t->answered, 1);
}

struct tt_multicore_client tt_scheduler_tally_client(struct tt_scheduler_tally *self) {
    return (struct tt_multicore_client){.context = self, .ended = ended, .dropped = dropped};
}

int64_t tt_scheduler_tally_answered(const struct tt_scheduler_tally *self) {
    int64_t sum = 0;
    for (int32_t t = 0; t < self->thread_count; t++)
        sum += tt_counter_get(&self->threads[t].answered);
    return sum;
}

struct tt_scheduler_tally_thread tt_scheduler_tally_sum(const struct tt_scheduler_tally *self) {
    struct tt_scheduler_tally_thread sum = {0};
    for (int32_t i = 0; i < self->thread_count; i++) {
        const struct tt_scheduler_tally_thread *t = &self->threads[i];
        sum.in_time += t->in_time;
        sum.late += t->late;
        sum.device_ns += t->device_ns;
        for (int32_t reason = 0; reason <= TT_DROP_WITHDRAWN; reason++)
            sum.dropped[reason] += t->dropped[reason];
    }
    return sum;
}
