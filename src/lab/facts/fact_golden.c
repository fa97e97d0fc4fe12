#include "lab/facts/fact_golden.h"

#include "base/instant.h"
#include "lab/run/scenario_run.h"

#include <math.h>
#include <stdlib.h>

struct batch {
    int64_t start_at;
    int64_t first, last;
    int32_t executor, count;
    bool contiguous;
};

struct heard {
    struct batch *batches; /* as many as the trace names */
    int64_t *dropped;      /* the smallest, ascending; one more than the trace names */
    size_t batch_capacity, batches_started, dropped_capacity, dropped_count;
};

/* Starts of one instant are told in the order of the executors, but not by contract: sorted in. */
static void on_step_started(void *context, int64_t now, const struct tt_task *task, int32_t step,
                            const int64_t *numbers) {
    struct heard *heard = context;
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
    size_t at = heard->batches_started++;
    for (; at > 0 && at <= heard->batch_capacity; at--) {
        const struct batch *before = &heard->batches[at - 1];
        if (before->start_at < now || before->executor <= task->executor)
            break;
        if (at < heard->batch_capacity)
            heard->batches[at] = *before;
    }
    if (at < heard->batch_capacity)
        heard->batches[at] = batch;
}

static void on_ended(void *context, const struct tt_sim_ending *ending) {
    struct heard *heard = context;
    if (ending->ending != TT_ENDING_DROPPED)
        return;
    size_t at = heard->dropped_count;
    if (at == heard->dropped_capacity) {
        if (heard->dropped[at - 1] < ending->number)
            return;
        at--; /* the largest makes room */
    } else {
        heard->dropped_count++;
    }
    for (; at > 0 && heard->dropped[at - 1] > ending->number; at--)
        heard->dropped[at] = heard->dropped[at - 1];
    heard->dropped[at] = ending->number;
}

/* The paper's number of our request `number`. */
static int64_t paper_number(const Tutti__FactTrace *trace, int64_t number) {
    int64_t theirs = trace->first_request + number;
    for (size_t i = 0; i < trace->n_missing && trace->missing[i] <= theirs; i++)
        theirs++;
    return theirs;
}

static bool same(const Tutti__FactTrace *trace, const Tutti__FactBatch *said,
                 const struct batch *ours) {
    return llround(said->start_ms * 1e6) == ours->start_at && ours->contiguous &&
           said->first == paper_number(trace, ours->first) &&
           said->last == paper_number(trace, ours->last) &&
           (said->device == 0 || said->device == ours->executor + 1);
}

static void tell_batch(const Tutti__FactTrace *trace, const Tutti__FactBatch *said,
                       const struct batch *ours, struct tt_text *note) {
    if (note->length)
        return;
    tt_text_printf(note, "the batch R%lld-R%lld at %.6g ms", (long long)said->first,
                   (long long)said->last, said->start_ms);
    if (ours)
        tt_text_printf(note, " is %d from R%lld on at %.6g ms on device %d", ours->count,
                       (long long)paper_number(trace, ours->first), (double)ours->start_at / 1e6,
                       ours->executor + 1);
    else
        tt_text_puts(note, " never started");
}

static double compare(const struct heard *heard, const Tutti__FactTrace *trace,
                      struct tt_text *note) {
    size_t right = 0, lines = trace->n_batch + trace->n_dropped + (trace->nothing_dropped ? 1 : 0);
    for (size_t i = 0; i < trace->n_batch; i++) {
        const struct batch *ours = i < heard->batches_started ? &heard->batches[i] : NULL;
        if (ours && same(trace, trace->batch[i], ours))
            right++;
        else
            tell_batch(trace, trace->batch[i], ours, note);
    }
    for (size_t i = 0; i < trace->n_dropped; i++) {
        if (i < heard->dropped_count && paper_number(trace, heard->dropped[i]) == trace->dropped[i])
            right++;
        else if (!note->length)
            tt_text_printf(note, "drop number %zu is not R%lld", i + 1,
                           (long long)trace->dropped[i]);
    }
    if (trace->nothing_dropped && heard->dropped_count == 0)
        right++;
    else if (trace->nothing_dropped && !note->length)
        tt_text_printf(note, "R%lld is dropped", (long long)paper_number(trace, heard->dropped[0]));
    return (double)right / (double)lines;
}

enum tt_err tt_fact_golden_run(const struct tt_scenario *scenario, const Tutti__FactTrace *trace,
                               double *out_share, struct tt_text *note, struct tt_error *why) {
    struct heard heard = {.batch_capacity = trace->n_batch,
                          .dropped_capacity = trace->n_dropped + 1,
                          .batches = calloc(trace->n_batch + 1, sizeof(*heard.batches)),
                          .dropped = calloc(trace->n_dropped + 1, sizeof(*heard.dropped))};
    struct tt_scenario_outputs outputs = {
        .also = {.context = &heard, .ended = on_ended, .step_started = on_step_started}};
    struct tt_scenario_result result;
    enum tt_err err = heard.batches && heard.dropped
                          ? tt_scenario_run(scenario, true, &outputs, NULL, &result, why)
                          : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err) {
        *out_share = compare(&heard, trace, note);
        tt_measure_fini(&result.measure);
    }
    free(heard.batches);
    free(heard.dropped);
    return err;
}
