#include "rt/calibrate.h"

#include "base/instant.h"
#include "rt/solo.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 1000 };

struct zeros {
    struct tt_tensor_view views[TT_MAX_TENSORS];
};

/* Zero inputs of `rows` rows with every variable dimension `length`. */
static enum tt_err make_zeros(const struct tt_signature *signature, int32_t rows, int32_t length,
                              struct zeros *zeros, struct tt_message *why) {
    *zeros = (struct zeros){0};
    for (int32_t i = 0; i < signature->input_count; i++) {
        struct tt_tensor_view *view = &zeros->views[i];
        view->shape = signature->inputs[i].shape;
        for (int32_t d = 0; d < view->shape.rank; d++)
            if (view->shape.dims[d] < 0)
                view->shape.dims[d] = length;
        if (signature->batched)
            view->shape.dims[0] = rows;
        int64_t count = tt_shape_count(&view->shape, 0);
        size_t width = tt_dtype_bytes(signature->inputs[i].dtype);
        width = width ? width : 4; /* BYTES: the length of an empty string */
        if (count < 0 || __builtin_mul_overflow((size_t)count, width, &view->size_bytes) ||
            view->size_bytes == SIZE_MAX)
            return tt_fail(TT_ERR_INVALID, why, "input '%s' is too large to be measured",
                           signature->inputs[i].name);
        view->bytes = calloc(view->size_bytes + 1, 1);
        if (!view->bytes)
            return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %zu bytes of input '%s'",
                           view->size_bytes, signature->inputs[i].name);
    }
    return TT_OK;
}

static void free_zeros(struct zeros *zeros) {
    for (int32_t i = 0; i < TT_MAX_TENSORS; i++)
        free((void *)zeros->views[i].bytes);
}

static enum tt_err run_once(struct tt_solo *solo, struct tt_engine_model *model, int32_t rows,
                            const struct tt_tensor_view *inputs, int64_t *out_ns,
                            struct tt_message *why) {
    struct tt_engine *engine = model->engine;
    struct tt_engine_member member = {.rows = rows, .inputs = inputs, .why = why};
    struct tt_engine_task task = {.model = model,
                                  .last_step = engine->ops->step_count(model) - 1,
                                  .member_count = 1,
                                  .members = &member};
    tt_solo_run(solo, &task);
    if (member.err)
        return member.err;
    engine->ops->result_release(member.result);
    *out_ns = task.finished_at - task.started_at;
    return TT_OK;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static enum tt_err measure(struct tt_solo *solo, struct tt_engine_model *model,
                           const struct tt_calibrate_options *options,
                           struct tt_calibration_point *point, int64_t *times,
                           struct tt_message *why) {
    const struct tt_signature *signature = model->engine->ops->signature(model);
    struct zeros zeros;
    enum tt_err err = make_zeros(signature, point->batch, point->length, &zeros, why);
    int64_t warm_up;
    if (!err)
        err = run_once(solo, model, point->batch, zeros.views, &warm_up, why);
    int32_t count = 0;
    int64_t total = 0;
    while (!err && count < MOST_RUNS &&
           (count == 0 ||
            (total < options->most_ns && (count < options->runs || total < options->least_ns)))) {
        err = run_once(solo, model, point->batch, zeros.views, &times[count], why);
        if (!err)
            total += times[count++];
    }
    free_zeros(&zeros);
    if (err)
        return tt_fail_in(err, why, "batch %d, length %d", point->batch, point->length);
    qsort(times, (size_t)count, sizeof(*times), compare);
    point->runs = count;
    point->median_ns = times[count / 2];
    point->low_ns = times[count / 10];
    point->high_ns = times[count - 1 - count / 10];
    return TT_OK;
}

static bool varies(const struct tt_signature *signature) {
    for (int32_t i = 0; i < signature->input_count; i++)
        for (int32_t d = signature->batched ? 1 : 0; d < signature->inputs[i].shape.rank; d++)
            if (signature->inputs[i].shape.dims[d] < 0)
                return true;
    return false;
}

static enum tt_err measure_all(struct tt_solo *solo, struct tt_engine_model *model,
                               const struct tt_calibrate_options *options, const int32_t *batches,
                               int32_t batch_count, struct tt_calibration_point *points,
                               struct tt_message *why) {
    static const int32_t usual_length = 16;
    bool has_length = varies(model->engine->ops->signature(model));
    static const int32_t no_length = 0;
    bool asked = options->lengths && options->length_count > 0 && has_length;
    const int32_t *lengths = asked ? options->lengths : has_length ? &usual_length : &no_length;
    int32_t length_count = asked ? options->length_count : 1;
    int64_t *times = malloc(MOST_RUNS * sizeof(*times));
    enum tt_err err = times ? TT_OK : tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    int32_t total = batch_count * length_count;
    for (int32_t i = 0; !err && i < total; i++) {
        points[i] = (struct tt_calibration_point){.batch = batches[i % batch_count],
                                                  .length = lengths[i / batch_count]};
        if (options->progress && !options->progress(options->progress_context, i, total,
                                                    points[i].batch, points[i].length))
            err = tt_fail(TT_ERR_CANCELLED, why, "interrupted");
        if (!err)
            err = measure(solo, model, options, &points[i], times, why);
    }
    free(times);
    return err;
}

enum tt_err tt_calibrate_run(struct tt_engine_model *model, int32_t rows,
                             const struct tt_tensor_view *inputs, int64_t *out_ns,
                             struct tt_message *why) {
    struct tt_solo solo;
    tt_solo_begin(&solo, model->engine);
    enum tt_err err = run_once(&solo, model, rows, inputs, out_ns, why);
    tt_solo_end(&solo);
    return err;
}

enum tt_err tt_calibrate(struct tt_engine_model *model, const struct tt_calibrate_options *options,
                         struct tt_calibration_point **out_points, int32_t *out_count,
                         struct tt_message *why) {
    tt_assert(options->max_batch >= 1 && options->max_batch <= 1 << 30);
    int32_t doubling[32], doubling_count = 0;
    for (int32_t b = 1; b < options->max_batch; b *= 2)
        doubling[doubling_count++] = b;
    doubling[doubling_count++] = options->max_batch;
    const int32_t *batches = options->batches ? options->batches : doubling;
    int32_t batch_count = options->batches ? options->batch_count : doubling_count;
    int32_t lengths = options->lengths && options->length_count > 0 ? options->length_count : 1;
    struct tt_calibration_point *points =
        calloc((size_t)batch_count * (size_t)lengths, sizeof(*points));
    if (!points)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
    struct tt_engine *engine = model->engine;
    struct tt_solo solo;
    tt_solo_begin(&solo, engine);
    enum tt_err err = measure_all(&solo, model, options, batches, batch_count, points, why);
    tt_solo_end(&solo);
    if (err) {
        free(points);
        return err;
    }
    *out_points = points;
    *out_count = batch_count * (varies(model->engine->ops->signature(model)) ? lengths : 1);
    return TT_OK;
}
