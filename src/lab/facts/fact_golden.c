#include "lab/facts/fact_golden.h"

#include "lab/run/scenario_run.h"
#include "lab/scenario/allocate.h"

#include <math.h>
#include <stdlib.h>

struct batch {
    int64_t start_at;
    int64_t first, last;
    int32_t executor, count;
    bool contiguous;
};

struct observed {
    struct batch *batches; /* as many as the golden run has */
    int64_t *dropped;      /* the smallest numbers, ascending; one more than the golden run has */
    size_t batch_capacity, batches_started, dropped_capacity, dropped_count;
};

/* Starts of one instant are sorted by executor: their order is not part of the contract. */
static void on_step_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                            const int64_t *numbers) {
    struct observed *observed = context;
    (void)step;
    struct batch batch = {.start_at = now,
                          .first = numbers[0],
                          .last = numbers[0],
                          .executor = task->executor,
                          .count = task->count,
                          .contiguous = true};
    for (int32_t i = 1; i < task->count; i++) {
        batch.contiguous = batch.contiguous && numbers[i] == numbers[i - 1] + 1;
        batch.last = numbers[i];
    }
    size_t at = observed->batches_started++;
    for (; at > 0 && at <= observed->batch_capacity; at--) {
        const struct batch *before = &observed->batches[at - 1];
        if (before->start_at < now || before->executor <= task->executor)
            break;
        if (at < observed->batch_capacity)
            observed->batches[at] = *before;
    }
    if (at < observed->batch_capacity)
        observed->batches[at] = batch;
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct observed *observed = context;
    if (ending->ending != TT_ENDING_DROPPED)
        return;
    size_t at = observed->dropped_count;
    if (at == observed->dropped_capacity) {
        if (observed->dropped[at - 1] < ending->number)
            return;
        at--; /* the largest is discarded */
    } else {
        observed->dropped_count++;
    }
    for (; at > 0 && observed->dropped[at - 1] > ending->number; at--)
        observed->dropped[at] = observed->dropped[at - 1];
    observed->dropped[at] = ending->number;
}

/* The paper's number of request `number`. */
static int64_t paper_number(const Tutti__FactTrace *golden, int64_t number) {
    int64_t theirs = golden->first_request + number;
    for (size_t i = 0; i < golden->n_missing && golden->missing[i] <= theirs; i++)
        theirs++;
    return theirs;
}

static bool same(const Tutti__FactTrace *golden, const Tutti__FactBatch *expected,
                 const struct batch *ours) {
    return llround(expected->start_ms * 1e6) == ours->start_at && ours->contiguous &&
           expected->first == paper_number(golden, ours->first) &&
           expected->last == paper_number(golden, ours->last) &&
           (expected->device == 0 || expected->device == ours->executor + 1);
}

static void note_batch(const Tutti__FactTrace *golden, const Tutti__FactBatch *expected,
                       const struct batch *ours, struct tt_text *note) {
    if (note->length)
        return;
    tt_text_printf(note, "the batch R%lld-R%lld at %.6g ms", (long long)expected->first,
                   (long long)expected->last, expected->start_ms);
    if (ours)
        tt_text_printf(note, " is %d from R%lld on at %.6g ms on device %d", ours->count,
                       (long long)paper_number(golden, ours->first), (double)ours->start_at / 1e6,
                       ours->executor + 1);
    else
        tt_text_puts(note, " never started");
}

static double compare(const struct observed *observed, const Tutti__FactTrace *golden,
                      struct tt_text *note) {
    size_t right = 0,
           lines = golden->n_batch + golden->n_dropped + (golden->nothing_dropped ? 1 : 0);
    for (size_t i = 0; i < golden->n_batch; i++) {
        const struct batch *ours = i < observed->batches_started ? &observed->batches[i] : NULL;
        if (ours && same(golden, golden->batch[i], ours))
            right++;
        else
            note_batch(golden, golden->batch[i], ours, note);
    }
    for (size_t i = 0; i < golden->n_dropped; i++) {
        if (i < observed->dropped_count &&
            paper_number(golden, observed->dropped[i]) == golden->dropped[i])
            right++;
        else if (!note->length)
            tt_text_printf(note, "drop number %zu is not R%lld", i + 1,
                           (long long)golden->dropped[i]);
    }
    if (golden->nothing_dropped && observed->dropped_count == 0)
        right++;
    else if (golden->nothing_dropped && !note->length)
        tt_text_printf(note, "R%lld is dropped",
                       (long long)paper_number(golden, observed->dropped[0]));
    return (double)right / (double)lines;
}

enum tt_err tt_fact_golden_run(const struct tt_scenario *scenario, const Tutti__FactTrace *golden,
                               double *out_share, struct tt_text *note, struct tt_error *why) {
    struct observed observed = {
        .batch_capacity = golden->n_batch,
        .dropped_capacity = golden->n_dropped + 1,
        .batches = tt_allocate(golden->n_batch + 1, sizeof(*observed.batches)),
        .dropped = tt_allocate(golden->n_dropped + 1, sizeof(*observed.dropped))};
    struct tt_scenario_outputs outputs = {
        .also = {.context = &observed, .ended = on_ended, .step_started = on_step_started}};
    struct tt_scenario_result result;
    enum tt_err err = tt_scenario_run(scenario, true, &outputs, NULL, &result, why);
    if (!err) {
        *out_share = compare(&observed, golden, note);
        tt_measure_fini(&result.measure);
    }
    free(observed.batches);
    free(observed.dropped);
    return err;
}
