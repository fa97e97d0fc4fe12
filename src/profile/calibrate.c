#include "profile/calibrate.h"

#include "engine/synthetic_input.h"
#include "profile/blocking_run.h"
#include "profile/contention.h"
#include "profile/repetition.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RUNS = 1000 };

struct measuring {
    struct tt_blocking_run blocking_run;
    struct tt_engine_model *model;
    const struct tt_calibrate_options *options;
    int32_t step_count; /* steps measured one by one; 0: only the whole */
    int64_t *times;     /* [1 + step_count][MAX_RUNS]: the whole, then the steps */
};

/* Runs steps first .. last; the member keeps the state between tasks. */
static enum tt_err run_steps(struct measuring *m, struct tt_engine_member *member, int32_t first,
                             int32_t last, int64_t *out_ns) {
    struct tt_engine *engine = m->model->engine;
    struct tt_engine_task task = {.model = m->model,
                                  .head.first_step = first,
                                  .head.last_step = last,
                                  .member_count = 1,
                                  .members = member,
                                  .together = true};
    tt_assert(first <= last);
    tt_assert(last < engine->ops->step_count(m->model));
    tt_blocking_run_run(&m->blocking_run, &task);
    if (member->err) {
        engine->ops->state_release(member->state);
        return member->err;
    }
    tt_assert(!member->result || !member->state); /* one of the two holds the activations */
    tt_assert(task.head.ended_at >= task.head.started_at);
    if (member->result)
        engine->ops->result_release(member->result);
    *out_ns = tt_run_ns(task.head.started_at, task.head.ended_at);
    return TT_OK;
}

/* Run number `run` of the whole, then of each step. */
static enum tt_err run_once(struct measuring *m, int32_t rows,
                            const struct tt_synthetic_input *zeros, int32_t run,
                            struct tt_error *why) {
    struct tt_engine_member member = {.rows = rows, .inputs = zeros->views, .why = why};
    tt_assert(run >= 0);
    tt_assert(run < MAX_RUNS);
    int32_t last = m->model->engine->ops->step_count(m->model) - 1;
    enum tt_err err = run_steps(m, &member, 0, last, &m->times[run]);
    for (int32_t s = 0; !err && s < m->step_count; s++)
        err = run_steps(m, &member, s, s, &m->times[(s + 1) * MAX_RUNS + run]);
    return err;
}

/* The points of one batch and length, with one executor busy. */
static enum tt_err measure_alone(struct measuring *m, struct tt_calibration_point *points,
                                 const struct tt_synthetic_input *zeros,
                                 const struct tt_repetition *repetition, struct tt_error *why) {
    int32_t batch = points[0].batch;
    enum tt_err err = run_once(m, batch, zeros, 0, why); /* warm-up */
    int32_t count = 0;
    int64_t total = 0;
    while (!err && tt_repetition_again(repetition, count, total)) {
        err = run_once(m, batch, zeros, count, why);
        if (!err)
            total += m->times[count++];
    }
    if (err)
        return err;
    tt_assert(count >= 1);
    for (int32_t s = 0; s <= m->step_count; s++) {
        struct tt_run_times times = tt_run_times_of(&m->times[(size_t)s * MAX_RUNS], count);
        points[s].runs = count;
        points[s].median_ns = times.median_ns;
        points[s].low_ns = times.low_ns;
        points[s].high_ns = times.high_ns;
    }
    return TT_OK;
}

/* The points of one batch and length. */
static enum tt_err measure(struct measuring *m, struct tt_calibration_point *points,
                           struct tt_error *why) {
    const struct tt_calibrate_options *options = m->options;
    const struct tt_signature *signature = m->model->engine->ops->signature(m->model);
    const struct tt_repetition repetition = {options->runs, MAX_RUNS, options->least_ns,
                                             options->max_ns};
    int32_t batch = points[0].batch, length = points[0].length;
    struct tt_synthetic_input zeros;
    enum tt_err err =
        tt_synthetic_input_init(&zeros, signature, 0, batch, length, TT_SYNTHETIC_INPUT_ZEROS, why);
    if (!err)
        err = measure_alone(m, points, &zeros, &repetition, why);
    struct tt_contention_subject beside = {.model = m->model,
                                           .rows = batch,
                                           .inputs = zeros.views,
                                           .step_count = m->step_count,
                                           .executors = options->executors,
                                           .repetition = repetition};
    if (!err && options->executors > 1)
        err = tt_contention_measure(&beside, points, why);
    tt_synthetic_input_fini(&zeros);
    return err ? tt_fail_in(err, why, "batch %d, length %d", batch, length) : TT_OK;
}

static enum tt_err measure_or_recall(struct measuring *m, struct tt_calibration_point *points,
                                     struct tt_error *why) {
    const struct tt_calibrate_options *options = m->options;
    int32_t count = 1 + m->step_count;
    if (options->recall && options->recall(options->progress_context, points, count))
        return TT_OK;
    enum tt_err err = measure(m, points, why);
    if (!err && options->keep)
        options->keep(options->progress_context, points, count);
    return err;
}

static enum tt_err measure_all(struct measuring *m, const int32_t *batches, int32_t batch_count,
                               const int32_t *lengths, int32_t length_count,
                               struct tt_calibration_point *points, struct tt_error *why) {
    const struct tt_calibrate_options *options = m->options;
    int32_t total = batch_count * length_count, each = 1 + m->step_count;
    for (int32_t i = 0; i < total; i++) {
        struct tt_calibration_point *group = &points[(size_t)i * (size_t)each];
        for (int32_t s = 0; s < each; s++)
            group[s] = (struct tt_calibration_point){.step = s - 1,
                                                     .batch = batches[i % batch_count],
                                                     .length = lengths[i / batch_count]};
        if (options->progress &&
            !options->progress(options->progress_context, i, total, group->batch, group->length))
            return tt_fail(TT_ERR_CANCELLED, why, "interrupted");
        enum tt_err err = measure_or_recall(m, group, why);
        if (err)
            return err;
    }
    return TT_OK;
}

enum tt_err tt_calibrate_run(struct tt_engine_model *model, int32_t rows,
                             const struct tt_tensor_view *inputs, int64_t *out_ns,
                             struct tt_error *why) {
    struct tt_blocking_run blocking_run;
    struct tt_engine_result *result;
    tt_blocking_run_begin(&blocking_run, model->engine);
    enum tt_err err =
        tt_blocking_run_whole(&blocking_run, model, rows, inputs, out_ns, &result, why);
    tt_blocking_run_end(&blocking_run);
    if (!err)
        model->engine->ops->result_release(result);
    return err;
}

enum tt_err tt_calibrate(struct tt_engine_model *model, const struct tt_calibrate_options *options,
                         struct tt_calibration_point **out_points, int32_t *out_count,
                         struct tt_error *why) {
    tt_assert(options->max_batch >= 1);
    tt_assert(options->max_batch <= 1 << 30);
    tt_assert(!options->batches || options->batch_count >= 1);
    tt_assert(options->runs >= 1);
    static const int32_t default_length = 16, no_length = 0;
    int32_t doubling[32], doubling_count = 0;
    for (int32_t b = 1; b < options->max_batch; b *= 2)
        doubling[doubling_count++] = b;
    doubling[doubling_count++] = options->max_batch;
    const int32_t *batches = options->batches ? options->batches : doubling;
    int32_t batch_count = options->batches ? options->batch_count : doubling_count;
    bool has_length = tt_signature_varies(model->engine->ops->signature(model));
    bool requested = options->lengths && options->length_count > 0 && has_length;
    const int32_t *lengths = requested    ? options->lengths
                             : has_length ? &default_length
                                          : &no_length;
    int32_t length_count = requested ? options->length_count : 1;
    int32_t steps = model->engine->ops->step_count(model);
    struct measuring m = {.model = model,
                          .options = options,
                          .step_count = options->by_step && steps > 1 ? steps : 0};
    size_t each = (size_t)m.step_count + 1;
    struct tt_calibration_point *points =
        calloc((size_t)batch_count * (size_t)length_count * each, sizeof(*points));
    m.times = calloc(each * MAX_RUNS, sizeof(*m.times));
    enum tt_err err = points && m.times ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    if (!err) {
        tt_blocking_run_begin(&m.blocking_run, model->engine);
        err = measure_all(&m, batches, batch_count, lengths, length_count, points, why);
        tt_blocking_run_end(&m.blocking_run);
    }
    free(m.times);
    if (err) {
        free(points);
        return err;
    }
    *out_points = points;
    *out_count = batch_count * length_count * (int32_t)each;
    return TT_OK;
}
